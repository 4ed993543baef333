//! Addresses of databases as JDBC spells them.

use onefold_types::{Error, Result, Secret};
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;
use url::{Url, form_urlencoded};

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    PostgreSql,
    MySql,
    Sqlite,
}

/// Where a database is.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) kind: Kind,
    /// The host; empty for a file.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The database's name, or the path of its file.
    pub(crate) database: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    /// What stands behind `?`, by its name in lower case, without user and password.
    pub(crate) settings: BTreeMap<String, String>,
    scheme: String,
}

impl Address {
    /// Reads `jdbc:postgresql://host:port/db?…`, `jdbc:mysql://…`, `jdbc:mariadb://…` or
    /// `jdbc:sqlite:PATH`.
    ///
    /// # Errors
    /// Invalid: it is none of these. The text never shows what was given: it may hold a password.
    pub(crate) fn parse(text: &str) -> Result<Address> {
        let bad = |why: &str| {
            Error::invalid(format!(
                "option `url` is no address of a database ({why}); give \
                 jdbc:postgresql://host:5432/db, jdbc:mysql://host:3306/db, \
                 jdbc:mariadb://host:3306/db or jdbc:sqlite:PATH"
            ))
        };
        let rest = text.trim().strip_prefix("jdbc:").ok_or_else(|| bad("it begins with jdbc:"))?;
        let (scheme, place) = rest.split_once(':').ok_or_else(|| bad("a `:` is missing"))?;
        let (kind, port) = match scheme {
            "postgresql" => (Kind::PostgreSql, 5432),
            "mysql" | "mariadb" => (Kind::MySql, 3306),
            "sqlite" => return file(place, &bad),
            _ => return Err(bad("this database is not known")),
        };
        let url = Url::parse(&format!("db:{place}")).map_err(|_| bad("it cannot be read"))?;
        if url.host_str().is_some_and(|host| host.contains(',')) {
            return Err(bad("one host is reached, and not several"));
        }
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let mut address = Address {
            kind,
            host: url.host_str().filter(|host| !host.is_empty()).unwrap_or("localhost").to_owned(),
            port: url.port().unwrap_or(port),
            database: decoded(url.path().trim_start_matches('/')),
            user: Some(url.username()).filter(|user| !user.is_empty()).map(decoded),
            password: url.password().map(decoded).map(Secret::new),
            settings: BTreeMap::new(),
            scheme: scheme.to_owned(),
        };
        for (name, value) in url.query_pairs() {
            match name.to_lowercase().as_str() {
                "user" => address.user = Some(value.into_owned()),
                "password" => address.password = Some(Secret::new(value.into_owned())),
                name => {
                    address.settings.insert(name.to_owned(), value.into_owned());
                }
            }
        }
        Ok(address)
    }

    /// Whether an address may be written down: nobody's password is in it, nor anything that is not
    /// known to be none.
    pub(crate) fn holds_no_secret(text: &str) -> bool {
        const PLAIN: [&str; 7] = [
            "sslmode",
            "ssl",
            "sslrootcert",
            "serversslcert",
            "currentschema",
            "applicationname",
            "rewritebatchedinserts",
        ];
        Address::parse(text).is_ok_and(|address| {
            address.password.is_none()
                && address.settings.keys().all(|name| PLAIN.contains(&name.as_str()))
        })
    }

    /// The settings of TLS that are not known: what was meant to protect would be left out.
    pub(crate) fn unknown_tls(&self, known: &[&str]) -> Option<&str> {
        let names = self.settings.keys().map(String::as_str);
        let mut tls = names.filter(|name| name.contains("ssl") || name.contains("tls"));
        tls.find(|name| !known.contains(name))
    }

    /// The address without who goes in, and without settings: they may hold secrets.
    pub(crate) fn shown(&self) -> String {
        let Address { host, port, database, scheme, .. } = self;
        match self.kind {
            Kind::Sqlite => format!("jdbc:{scheme}:{database}"),
            _ => format!("jdbc:{scheme}://{host}:{port}/{database}"),
        }
    }
}

fn file(place: &str, bad: &impl Fn(&str) -> Error) -> Result<Address> {
    let (path, settings) = place.split_once('?').unwrap_or((place, ""));
    if path.is_empty() || path == ":memory:" {
        return Err(bad("a path is missing: a database in memory would end with each session"));
    }
    Ok(Address {
        kind: Kind::Sqlite,
        host: String::new(),
        port: 0,
        database: path.strip_prefix("file:").unwrap_or(path).to_owned(),
        user: None,
        password: None,
        // None are known.
        settings: form_urlencoded::parse(settings.as_bytes())
            .map(|(name, value)| (name.to_lowercase(), value.into_owned()))
            .collect(),
        scheme: "sqlite".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_what_stands_in_it() {
        let text = "jdbc:postgresql://ann:p%40ss@db.example:6432/shop?sslmode=require&user=bob";
        let address = Address::parse(text).unwrap();
        assert_eq!(address.kind, Kind::PostgreSql);
        assert_eq!((address.host.as_str(), address.port), ("db.example", 6432));
        assert_eq!(address.database, "shop");
        assert_eq!(address.user.as_deref(), Some("bob"));
        assert_eq!(address.password.as_ref().map(Secret::expose), Some("p@ss"));
        assert_eq!(address.settings.get("sslmode").map(String::as_str), Some("require"));
        assert_eq!(address.shown(), "jdbc:postgresql://db.example:6432/shop");
        let address = Address::parse("jdbc:mariadb://h/d").unwrap();
        assert_eq!((address.kind, address.port), (Kind::MySql, 3306));
        let address = Address::parse("jdbc:sqlite:/data/x.db").unwrap();
        assert_eq!(address.shown(), "jdbc:sqlite:/data/x.db");
    }

    #[test]
    fn an_address_is_written_down_only_if_no_password_can_be_in_it() {
        for text in [
            "jdbc:sqlite:/data/x.db",
            "jdbc:postgresql://h/d?user=ann&sslmode=require",
            "jdbc:mariadb://h:1/d",
        ] {
            assert!(Address::holds_no_secret(text), "{text}");
        }
        for text in [
            "jdbc:postgresql://ann:x@h/d",
            "jdbc:postgresql://h/d?user=ann&PASSWORD=x",
            "jdbc:mysql://h/d?trustStorePassword=x",
            "jdbc:oracle:x",
        ] {
            assert!(!Address::holds_no_secret(text), "{text}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for text in ["jdbc:oracle://u:hunter2@h/d", "postgresql://u:hunter2@h/d", "jdbc:hunter2"] {
            let error = Address::parse(text).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let address = Address::parse("jdbc:mysql://h/d?user=u&password=hunter2").unwrap();
        assert!(!format!("{address:?}").contains("hunter2"));
        assert!(!address.shown().contains("hunter2"));
    }
}
