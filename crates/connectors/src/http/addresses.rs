//! Which receivers may be called.
//!
//! A server that several people use can reach more than they can: its own ports, the machines beside it, the
//! cloud's service of credentials. So the address that a name leads to is judged, after the name was
//! resolved, and the connection goes to the address that was judged.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use onefold_types::{Error, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Receivers that alone may be called.
pub(super) const ALLOW: &str = "onefold.http.allow";
/// Receivers that may never be called.
pub(super) const DENY: &str = "onefold.http.deny";
/// Whether receivers in private networks may be called.
pub(super) const PRIVATE: &str = "onefold.http.privateNetworks";

/// Which receivers may be called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Addresses {
    allow: Vec<Rule>,
    deny: Vec<Rule>,
    private_refused: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Net(IpNet),
    Host(String),
    /// All hosts whose names end so, with the dot before.
    Below(String),
}

impl Rule {
    fn parse(setting: &str, text: &str) -> Result<Rule> {
        let text = text.trim().to_lowercase();
        if let Ok(net) = IpNet::from_str(&text) {
            return Ok(Rule::Net(net));
        }
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = IpAddr::from_str(bare) {
            return Ok(Rule::Net(address.into()));
        }
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text.as_str()),
        };
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_empty() || !name.chars().all(named) {
            return Err(Error::invalid(format!(
                "{setting} has `{text}`, but takes host names such as api.example.com or \
                 *.example.com, addresses and networks such as 10.1.0.0/16, with commas between"
            )));
        }
        Ok(if below { Rule::Below(format!(".{name}")) } else { Rule::Host(name.to_owned()) })
    }

    fn meets(&self, host: &str, address: IpAddr) -> bool {
        match self {
            Rule::Net(net) => net.contains(&address),
            Rule::Host(name) => host == name,
            Rule::Below(end) => host.ends_with(end.as_str()),
        }
    }
}

impl Addresses {
    /// As the settings say.
    ///
    /// # Errors
    /// Invalid: what a setting has is no list of hosts and networks.
    pub(super) fn of(setting: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let rules = |name: &str| -> Result<Vec<Rule>> {
            let text = setting(name).unwrap_or_default();
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(|part| Rule::parse(name, part)).collect()
        };
        let private = setting(PRIVATE).unwrap_or_default();
        Ok(Addresses {
            allow: rules(ALLOW)?,
            deny: rules(DENY)?,
            private_refused: private.trim().eq_ignore_ascii_case("refused"),
        })
    }

    /// Judges the address that a host's name led to (or that it is).
    ///
    /// # Errors
    /// Why it may not be called.
    pub(super) fn judge(&self, host: &str, address: IpAddr) -> Result<(), String> {
        let host = host.trim_end_matches('.').to_lowercase();
        let address = plain(address);
        let meets = |rules: &[Rule]| rules.iter().any(|rule| rule.meets(&host, address));
        if meets(&self.deny) {
            return Err(format!("{host} may not be called: {DENY} names it"));
        }
        if !self.allow.is_empty() {
            return match meets(&self.allow) {
                true => Ok(()),
                false => Err(format!("{host} may not be called: {ALLOW} does not name it")),
            };
        }
        if self.private_refused && is_private(address) {
            return Err(format!(
                "{host} is in a private network, which may not be called from this server; whoever \
                 starts it may name it in {ALLOW}"
            ));
        }
        Ok(())
    }
}

/// An address of the old kind in the clothes of the new one is what it is.
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address else { return address };
    if let Some(four) = six.to_ipv4_mapped() {
        return IpAddr::V4(four);
    }
    match six.octets() {
        // What translates between both kinds, and 6to4.
        [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
        | [0x20, 0x02, a, b, c, d, ..] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        _ => address,
    }
}

/// Networks of the old kind that are not of the open internet.
const PRIVATE_FOUR: [(Ipv4Addr, u8); 13] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// The one network of the new kind that is of the open internet.
const OPEN_SIX: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => PRIVATE_FOUR
            .iter()
            .any(|(net, bits)| Ipv4Net::new(*net, *bits).is_ok_and(|net| net.contains(&address))),
        IpAddr::V6(address) => {
            let (net, bits) = OPEN_SIX;
            !Ipv6Net::new(net, bits).is_ok_and(|net| net.contains(&address))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(settings: &[(&str, &str)]) -> Result<Addresses> {
        Addresses::of(|name| {
            let found = settings.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn may(addresses: &Addresses, host: &str, address: &str) -> bool {
        addresses.judge(host, address.parse().unwrap()).is_ok()
    }

    #[test]
    fn where_private_networks_are_refused_no_spelling_of_one_gets_through() {
        let shared = addresses(&[(PRIVATE, "refused")]).unwrap();
        for private in [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.7",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fd00::7",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "::127.0.0.1",
            "198.18.0.1",
        ] {
            assert!(!may(&shared, "x.example", private), "{private}");
        }
        for open in ["93.184.216.34", "172.32.0.1", "8.8.8.8", "2606:4700::1", "64:ff9b::808:808"] {
            assert!(may(&shared, "x.example", open), "{open}");
        }
        let alone = addresses(&[]).unwrap();
        assert!(may(&alone, "localhost", "127.0.0.1") && may(&alone, "x", "10.0.0.1"));
    }

    #[test]
    fn a_list_of_what_may_be_called_is_the_whole_list() {
        let listed = addresses(&[
            (PRIVATE, "refused"),
            (ALLOW, "API.example.com, *.partner.example, 10.1.0.0/16,[fd00::7]"),
        ]);
        let listed = listed.unwrap();
        for (host, address) in [
            ("api.example.com", "93.184.216.34"),
            ("api.example.com.", "10.9.9.9"),
            ("a.b.partner.example", "8.8.8.8"),
            ("inside", "10.1.2.3"),
            ("x", "::ffff:10.1.2.3"),
            ("x", "fd00::7"),
        ] {
            assert!(may(&listed, host, address), "{host} {address}");
        }
        for (host, address) in [
            ("example.com", "93.184.216.34"),
            ("partner.example", "8.8.8.8"),
            ("evilpartner.example", "8.8.8.8"),
            ("inside", "10.2.0.1"),
        ] {
            assert!(!may(&listed, host, address), "{host} {address}");
        }
    }

    #[test]
    fn what_is_denied_stays_so_whatever_else_allows_it() {
        let both = addresses(&[(ALLOW, "*.example.com"), (DENY, "bad.example.com,8.8.0.0/16")]);
        let both = both.unwrap();
        assert!(may(&both, "good.example.com", "9.9.9.9"));
        assert!(!may(&both, "bad.example.com", "9.9.9.9"));
        assert!(!may(&both, "good.example.com", "8.8.1.1"));
    }

    #[test]
    fn what_is_no_host_is_refused_with_the_setting_s_name() {
        for wrong in ["http://x", "a b", "10.0.0.0/99", "x:80", "*"] {
            let error = addresses(&[(ALLOW, wrong)]).unwrap_err().to_string();
            assert!(error.contains(ALLOW), "{wrong}: {error}");
        }
    }
}
