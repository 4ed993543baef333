//! MySQL and MariaDB: rows go in by statements of many rows.

mod session;
mod value;

use super::Ways;
use super::address::Address;
use super::database::{Database, Session};
use super::dialect::{Dialect, MYSQL};
use super::failure::{Failure, FailureKind};
use super::tls::{self, Mode};
use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error as ClientError, Opts, OptsBuilder, SslOpts};
use onefold_types::Result;
use session::MySession;
use std::path::PathBuf;
use std::time::Duration;

/// How long to wait for a server that does not answer.
const CONNECT: Duration = Duration::from_secs(10);

/// The settings of TLS that are known.
const KNOWN_TLS: [&str; 3] = ["sslmode", "sslrootcert", "serversslcert"];

/// A server.
pub(crate) struct Server {
    opts: Opts,
    shown: String,
    ways: Ways,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server").field(&self.shown).finish()
    }
}

impl Server {
    /// # Errors
    /// Invalid: the address has settings that are not known.
    pub(crate) fn new(address: &Address, ways: Ways) -> Result<Server> {
        if let Some(name) = address.unknown_tls(&KNOWN_TLS) {
            return Err(tls::unknown(name, &KNOWN_TLS));
        }
        let setting = |name: &str| address.settings.get(name).map(|it| it.to_lowercase());
        // The words of MySQL's driver, and those of MariaDB's and PostgreSQL's.
        let word = setting("sslmode").map(|word| match word.as_str() {
            "disabled" | "preferred" => "disable".to_owned(),
            "required" | "trust" => "require".to_owned(),
            "verify_ca" | "verify_identity" => "verify-full".to_owned(),
            _ => word,
        });
        let mode = Mode::parse(Some(word.as_deref().unwrap_or("disable")))?;
        let root = address.settings.get("sslrootcert").or(address.settings.get("serversslcert"));
        let ssl = match mode {
            Mode::Disable | Mode::Prefer => None,
            Mode::Require => Some(
                SslOpts::default()
                    .with_danger_accept_invalid_certs(true)
                    .with_danger_skip_domain_validation(true),
            ),
            Mode::Verify => Some(match root {
                Some(path) => SslOpts::default()
                    .with_root_certs(vec![PathBuf::from(path).into()])
                    .with_disable_built_in_roots(true),
                None => SslOpts::default(),
            }),
        };
        if ssl.is_some() {
            // The client takes the process's own; somebody else may have set it, which is fine.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let database = Some(address.database.clone()).filter(|name| !name.is_empty());
        let opts = OptsBuilder::default()
            .ip_or_hostname(address.host.clone())
            .tcp_port(address.port)
            .user(address.user.clone())
            .pass(address.password.as_ref().map(|password| password.expose().to_owned()))
            .db_name(database)
            .prefer_socket(false)
            .tcp_nodelay(true)
            .ssl_opts(ssl);
        Ok(Server { opts: opts.into(), shown: address.shown(), ways })
    }
}

#[async_trait]
impl Database for Server {
    fn dialect(&self) -> &'static dyn Dialect {
        MYSQL
    }

    fn place(&self) -> String {
        self.shown.clone()
    }

    async fn connect(&self) -> Result<Box<dyn Session>, Failure> {
        let connecting = tokio::time::timeout(CONNECT, Conn::new(self.opts.clone())).await;
        let connected = connecting.map_err(|_| Failure::lost("the server does not answer"))?;
        let mut conn = connected.map_err(failed)?;
        // What does not fit is refused, and never cut; times are UTC's.
        let lock = self.ways.lock.as_secs();
        for sql in [
            "SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')".to_owned(),
            "SET SESSION time_zone = '+00:00'".to_owned(),
            format!("SET SESSION innodb_lock_wait_timeout = {lock}"),
            format!("SET SESSION lock_wait_timeout = {lock}"),
        ] {
            conn.query_drop(sql).await.map_err(failed)?;
        }
        if let Some(first) = &self.ways.first {
            conn.query_drop(first.as_str()).await.map_err(failed)?;
        }
        Ok(Box::new(MySession::new(conn)))
    }
}

/// What an error of the client means.
fn failed(error: ClientError) -> Failure {
    let ClientError::Server(said) = &error else {
        let kind = match &error {
            ClientError::Io(_) | ClientError::Driver(_) => FailureKind::Lost,
            ClientError::Other(_) | ClientError::Url(_) | ClientError::Server(_) => {
                FailureKind::Refused
            }
        };
        return Failure::new(kind, error.to_string());
    };
    let kind = match said.code {
        1146 => FailureKind::NoTable,
        // Too many sessions, a lock, a deadlock, an interrupted statement.
        1040 | 1203 | 1205 | 1213 | 1317 | 3024 => FailureKind::Busy,
        // The server stops, or somebody ended the session.
        1053 | 1077 | 1079 | 1927 | 4031 => FailureKind::Lost,
        _ => FailureKind::Refused,
    };
    let (row, column) = placed(&said.message);
    let failure = Failure::new(kind, format!("{} ({})", said.message, said.code));
    match said.code {
        1021 | 1114 => failure.disk_full(),
        _ => failure.at(row, column),
    }
}

/// The row and the column in `Data too long for column 'c' at row 3`.
fn placed(message: &str) -> (Option<u64>, Option<String>) {
    let row = message.rsplit_once(" at row ").and_then(|(_, row)| row.trim().parse::<u64>().ok());
    let column = ["for column ", "Column "].iter().find_map(|before| {
        let (_, rest) = message.split_once(before)?;
        // MariaDB writes `db`.`table`.`column`.
        let end = rest.find(" at row").or(rest.find(" cannot")).unwrap_or(rest.len());
        let name = rest.get(..end)?.rsplit('.').next()?;
        Some(name.trim_matches(['\'', '`', ' ']).to_owned())
    });
    (row.and_then(|row| row.checked_sub(1)), column)
}

#[cfg(test)]
mod tests {
    use super::placed;

    #[test]
    fn the_place_of_a_refused_value_is_read() {
        let column = |name: &str| Some(name.to_owned());
        assert_eq!(placed("Data too long for column 'c' at row 3"), (Some(2), column("c")));
        let message = "Incorrect integer value: 'x' for column `d`.`t`.`n` at row 1";
        assert_eq!(placed(message), (Some(0), column("n")));
        assert_eq!(placed("Column 'k' cannot be null"), (None, column("k")));
        assert_eq!(placed("Duplicate entry '1' for key 'PRIMARY'"), (None, None));
    }
}
