//! PostgreSQL: rows go in by binary COPY.

mod array;
mod binary;
mod numeric;
mod session;

use super::Ways;
use super::address::Address;
use super::database::{Database, Session};
use super::dialect::{Dialect, POSTGRESQL};
use super::failure::{Failure, FailureKind};
use super::tls::{self, Mode};
use async_trait::async_trait;
use onefold_types::Result;
use session::PgSession;
use std::time::Duration;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long to wait for a server that does not answer.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a session of ours may hold locks without doing anything: a driver that was stopped in
/// the middle keeps the next one waiting no longer.
const IDLE: &str = "60s";

/// The settings of TLS that are known.
const KNOWN_TLS: [&str; 3] = ["ssl", "sslmode", "sslrootcert"];

/// A server.
pub(crate) struct Server {
    config: Config,
    tls: Option<MakeRustlsConnect>,
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
        let setting = |name: &str| address.settings.get(name).map(String::as_str);
        let word = setting("sslmode").or(match setting("ssl") {
            Some("true" | "") => Some("verify-full"),
            _ => None,
        });
        let mode = Mode::parse(word)?;
        let mut config = Config::new();
        config
            .host(&address.host)
            .port(address.port)
            .connect_timeout(CONNECT)
            .keepalives_idle(Duration::from_secs(30))
            .application_name(setting("applicationname").unwrap_or("onefold"))
            .ssl_mode(match mode {
                Mode::Disable => SslMode::Disable,
                Mode::Prefer => SslMode::Prefer,
                Mode::Require | Mode::Verify => SslMode::Require,
            });
        if !address.database.is_empty() {
            config.dbname(&address.database);
        }
        let user = address.user.clone().unwrap_or_else(|| "postgres".to_owned());
        config.user(user);
        if let Some(password) = &address.password {
            config.password(password.expose());
        }
        if let Some(schema) = setting("currentschema") {
            config.options(format!("-c search_path={}", schema.replace([' ', '\\'], "")));
        }
        let tls = match mode {
            Mode::Disable => None,
            mode => Some(MakeRustlsConnect::new(tls::config(mode, setting("sslrootcert"))?)),
        };
        Ok(Server { config, tls, shown: address.shown(), ways })
    }
}

#[async_trait]
impl Database for Server {
    fn dialect(&self) -> &'static dyn Dialect {
        POSTGRESQL
    }

    fn place(&self) -> String {
        self.shown.clone()
    }

    async fn connect(&self) -> Result<Box<dyn Session>, Failure> {
        self.open_within(CONNECT).await
    }
}

impl Server {
    /// The client's own time ends with the connection: a server that takes it and says nothing would
    /// be waited for.
    async fn open_within(&self, patience: Duration) -> Result<Box<dyn Session>, Failure> {
        let opening = tokio::time::timeout(patience, self.open());
        opening.await.map_err(|_| Failure::lost("the server does not answer"))?
    }

    async fn open(&self) -> Result<Box<dyn Session>, Failure> {
        let client = match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await.map_err(failed)?;
                tokio::spawn(connection);
                client
            }
            Some(tls) => {
                let connected = self.config.connect(tls.clone()).await;
                let (client, connection) = connected.map_err(failed)?;
                tokio::spawn(connection);
                client
            }
        };
        let mut setup = format!(
            "SET lock_timeout = '{}ms'; SET idle_in_transaction_session_timeout = '{IDLE}'",
            self.ways.lock.as_millis()
        );
        if !self.ways.statement.is_zero() {
            setup.push_str(&format!(
                "; SET statement_timeout = '{}ms'",
                self.ways.statement.as_millis()
            ));
        }
        client.batch_execute(&setup).await.map_err(failed)?;
        if let Some(first) = &self.ways.first {
            client.batch_execute(first).await.map_err(failed)?;
        }
        Ok(Box::new(PgSession::new(client)))
    }
}

/// What an error of the client means.
fn failed(error: tokio_postgres::Error) -> Failure {
    let Some(said) = error.as_db_error() else {
        let mut text = error.to_string();
        if let Some(cause) = std::error::Error::source(&error) {
            text = format!("{text}: {cause}");
        }
        let ours = [
            "error serializing",
            "error deserializing",
            "error retrieving column",
            "invalid configuration",
        ];
        let kind = match ours.iter().any(|it| text.starts_with(it)) {
            true => FailureKind::Refused,
            false => FailureKind::Lost,
        };
        return Failure::new(kind, text);
    };
    let code = said.code();
    let kind = if *code == SqlState::UNDEFINED_TABLE {
        FailureKind::NoTable
    } else if ["40", "53"].iter().any(|class| code.code().starts_with(class))
        || [SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED].contains(code)
    {
        FailureKind::Busy
    } else if ["08", "57P", "25P03"].iter().any(|class| code.code().starts_with(class)) {
        FailureKind::Lost
    } else {
        FailureKind::Refused
    };
    let mut text = format!("{} ({})", said.message(), code.code());
    for (word, more) in [("detail", said.detail()), ("hint", said.hint())] {
        if let Some(more) = more {
            text.push_str(&format!("; {word}: {more}"));
        }
    }
    let (row, column) = said.where_().map_or((None, None), copied_at);
    let failure = Failure::new(kind, text);
    match *code == SqlState::DISK_FULL {
        true => failure.disk_full(),
        false => failure.at(row, column.or(said.column().map(str::to_owned))),
    }
}

/// The row and the column in `COPY t, line 3, column c: "…"`.
fn copied_at(place: &str) -> (Option<u64>, Option<String>) {
    // The text of JSON has lines of its own, told before.
    let copy = place.lines().find(|line| line.starts_with("COPY "));
    let Some((_, rest)) = copy.and_then(|line| line.split_once(", line ")) else {
        return (None, None);
    };
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let row = digits.parse::<u64>().ok().and_then(|line| line.checked_sub(1));
    let column = rest.split_once(", column ").map(|(_, column)| {
        let end = column.find([':', '\n']).unwrap_or(column.len());
        column.get(..end).unwrap_or(column).to_owned()
    });
    (row, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_takes_a_connection_and_says_nothing_is_not_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address::parse(&format!("jdbc:postgresql://127.0.0.1:{port}/d")).unwrap();
        let zero = Duration::ZERO;
        let server =
            Server::new(&address, Ways { first: None, lock: zero, statement: zero }).unwrap();
        let failure = server.open_within(Duration::from_millis(20)).await.err().unwrap();
        assert_eq!(failure.kind, FailureKind::Lost, "{failure}");
    }

    #[test]
    fn the_place_of_a_copied_value_is_read() {
        let column = |name: &str| Some(name.to_owned());
        assert_eq!(copied_at("COPY t, line 3, column c: \"x\""), (Some(2), column("c")));
        assert_eq!(copied_at("COPY t, line 1, column a b"), (Some(0), column("a b")));
        let json = copied_at("JSON data, line 1: {\nCOPY t, line 2, column j: \"{\"");
        assert_eq!(json, (Some(1), column("j")));
        assert_eq!(copied_at("SQL function"), (None, None));
    }
}
