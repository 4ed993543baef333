//! Real database servers on loopback: PostgreSQL and MariaDB.
//!
//! A server is what `scripts/postgres.sh serve` or `scripts/mariadb.sh serve` runs: it ends when this
//! process does, however that ends.

use crate::script::Talk;
use std::io::{self, Error};
use std::sync::{Mutex, PoisonError};

/// A running server.
#[derive(Debug)]
pub struct DatabaseServer {
    port: u16,
    talk: Mutex<Talk>,
}

impl DatabaseServer {
    /// A PostgreSQL server; user `onefold` needs no password, its database is `postgres`.
    ///
    /// # Errors
    /// The script failed, as where PostgreSQL is missing.
    pub fn postgres() -> io::Result<DatabaseServer> {
        DatabaseServer::start("postgres.sh")
    }

    /// A MariaDB server; user `onefold` has the password `onefold-secret` and a database `onefold`.
    ///
    /// # Errors
    /// The script failed, as where MariaDB is missing.
    pub fn mariadb() -> io::Result<DatabaseServer> {
        DatabaseServer::start("mariadb.sh")
    }

    fn start(script: &str) -> io::Result<DatabaseServer> {
        let (talk, about) = Talk::start(script, &[])?;
        let port = about
            .split_once("\"port\": ")
            .and_then(|(_, rest)| rest.split([',', '}']).next())
            .and_then(|port| port.trim().parse().ok())
            .ok_or_else(|| Error::other(about.clone()))?;
        Ok(DatabaseServer { port, talk: Mutex::new(talk) })
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Says `kill` or `start` to the script.
    ///
    /// # Errors
    /// The server did not come back, or the script has ended.
    pub fn tell(&self, command: &str) -> io::Result<()> {
        let answer = self.talk.lock().unwrap_or_else(PoisonError::into_inner).ask(command)?;
        if answer == "done" { Ok(()) } else { Err(Error::other(answer)) }
    }
}
