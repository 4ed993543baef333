//! Finds the addresses of receivers, and leaves out those that may not be called.
//!
//! The client connects to what this gives and asks no further: a name that leads elsewhere a moment later
//! gains nothing by it.

use super::addresses::Addresses;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::error::Error as StdError;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// A receiver that may not be called, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotAllowed(pub(super) String);

impl fmt::Display for NotAllowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for NotAllowed {}

impl NotAllowed {
    /// The reason that stands somewhere in a chain of causes.
    pub(super) fn within<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a NotAllowed> {
        match error.downcast_ref() {
            Some(found) => Some(found),
            None => NotAllowed::within(error.source()?),
        }
    }
}

/// Asks the machine's resolver.
#[derive(Debug)]
pub(super) struct Judged(pub(super) Arc<Addresses>);

impl Resolve for Judged {
    fn resolve(&self, name: Name) -> Resolving {
        let addresses = Arc::clone(&self.0);
        Box::pin(async move {
            let host = name.as_str().to_owned();
            // The port is the client's matter.
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let allowed = allowed(&addresses, &host, found)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Those that may be called.
///
/// # Errors
/// There are some, and none of them may be.
fn allowed(
    addresses: &Addresses,
    host: &str,
    found: impl Iterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, NotAllowed> {
    let mut refused = None;
    let mut allowed = Vec::new();
    for address in found {
        match addresses.judge(host, address.ip()) {
            Ok(()) => allowed.push(address),
            Err(why) => refused = refused.or(Some(NotAllowed(why))),
        }
    }
    match refused.filter(|_| allowed.is_empty()) {
        Some(refused) => Err(refused),
        None => Ok(allowed),
    }
}

#[cfg(test)]
mod tests {
    use super::super::addresses::PRIVATE;
    use super::*;

    #[test]
    fn a_name_that_leads_to_both_kinds_of_networks_leads_to_the_open_one_only() {
        let shared = Addresses::of(|name| (name == PRIVATE).then(|| "refused".to_owned())).unwrap();
        let both = ["127.0.0.1:0", "8.8.8.8:0", "[::1]:0"].map(|text| text.parse().unwrap());
        let kept = allowed(&shared, "rebinding.example", both.into_iter()).unwrap();
        assert_eq!(kept, ["8.8.8.8:0".parse().unwrap()]);
        let inside = ["127.0.0.1:0".parse().unwrap()];
        let error = allowed(&shared, "rebinding.example", inside.into_iter()).unwrap_err();
        assert!(error.0.contains("rebinding.example"), "{error}");
    }

    #[test]
    fn the_reason_is_found_below_other_errors() {
        #[derive(Debug)]
        struct Outer(NotAllowed);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("outer")
            }
        }
        impl StdError for Outer {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(&self.0)
            }
        }
        let error = Outer(NotAllowed("why".to_owned()));
        assert_eq!(NotAllowed::within(&error), Some(&NotAllowed("why".to_owned())));
        assert_eq!(NotAllowed::within(&fmt::Error), None);
    }
}
