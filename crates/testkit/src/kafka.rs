//! A real Kafka cluster on loopback.
//!
//! The cluster is what `scripts/kafka.sh serve` runs: it ends when this process does, however that
//! ends.

use crate::script::Talk;
use std::ffi::OsString;
use std::io::{self, Error};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A running cluster of nodes that are numbered from 1.
#[derive(Debug)]
pub struct Broker {
    bootstrap: String,
    talk: Mutex<Talk>,
}

impl Broker {
    /// A cluster of one node in a folder.
    ///
    /// # Errors
    /// The script failed, as where Java is missing.
    pub fn start(folder: &Path) -> io::Result<Broker> {
        Broker::start_nodes(folder, 1, &[])
    }

    /// A cluster of some nodes, with settings such as `log.retention.ms=1000`.
    ///
    /// # Errors
    /// The script failed, as where Java is missing.
    pub fn start_nodes(folder: &Path, nodes: u32, settings: &[&str]) -> io::Result<Broker> {
        let mut arguments = vec![folder.as_os_str().to_owned(), nodes.to_string().into()];
        arguments.extend(settings.iter().map(OsString::from));
        let (talk, about) = Talk::start("kafka.sh", &arguments)?;
        let bootstrap = about
            .split_once("\"bootstrap\":\"")
            .and_then(|(_, rest)| rest.split_once('"'))
            .map(|(bootstrap, _)| bootstrap.to_owned())
            .ok_or_else(|| Error::other(about.clone()))?;
        Ok(Broker { bootstrap, talk: Mutex::new(talk) })
    }

    /// What clients connect to.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a node with SIGKILL.
    ///
    /// # Errors
    /// The script has ended.
    pub fn kill(&self, node: u32) -> io::Result<()> {
        self.talk().ask(&format!("kill {node}")).map(drop)
    }

    /// Ends a node in order.
    ///
    /// # Errors
    /// The script has ended.
    pub fn stop(&self, node: u32) -> io::Result<()> {
        self.talk().ask(&format!("stop {node}")).map(drop)
    }

    /// Brings a node back on the ports and logs that it had, and waits until it answers.
    ///
    /// # Errors
    /// The node did not come back.
    pub fn restart(&self, node: u32) -> io::Result<()> {
        let answer = self.talk().ask(&format!("start {node}"))?;
        if answer.parse::<u32>().is_ok() {
            return Ok(());
        }
        Err(Error::other(format!("node {node}: {answer}")))
    }
}
