//! Errors of an object store in words, without the secrets that its client and server put there.

use onefold_types::{Error, ErrorKind};

/// An error of one call on one object. `act` completes "cannot …".
pub(super) fn fault(act: &str, url: &str, error: &object_store::Error) -> Error {
    Error::new(kind_of(error), format!("cannot {act} {url}: {}{}", reason(error), advice(error)))
}

/// As [`fault`] for a call that may have changed something although it failed.
pub(super) fn doubt(act: &str, url: &str, error: &object_store::Error) -> Error {
    let text = format!("cannot tell whether to {act} {url} succeeded: {}", reason(error));
    Error::new(ErrorKind::Unknown, text)
}

/// Codes of answers that stay the same however often one asks. Not every call of the client tells
/// them apart by variant.
const INVALID_CODES: &[&str] = &[
    "AccessDenied",
    "AuthorizationHeaderMalformed",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidBucketName",
    "InvalidToken",
    "NoSuchBucket",
    "SignatureDoesNotMatch",
];

fn kind_of(error: &object_store::Error) -> ErrorKind {
    use object_store::Error as E;
    if code_of(&error.to_string()).is_some_and(|code| INVALID_CODES.contains(&code)) {
        return ErrorKind::Invalid;
    }
    match error {
        E::PermissionDenied { .. }
        | E::Unauthenticated { .. }
        | E::InvalidPath { .. }
        | E::NotSupported { .. }
        | E::NotImplemented { .. }
        | E::UnknownConfigurationKey { .. } => ErrorKind::Invalid,
        E::NotFound { .. } => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    }
}

fn advice(error: &object_store::Error) -> &'static str {
    use object_store::Error as E;
    match error {
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
            "; check the credentials and the rights that go with them"
        }
        E::NotImplemented { .. } | E::NotSupported { .. } => {
            "; this store lacks what Onefold needs of it"
        }
        _ => "",
    }
}

/// Whether after this error nothing can have happened: the one try that was made got a definite
/// answer. An answer after a retry says nothing about the tries before it.
pub(super) fn certainly_not_done(error: &object_store::Error) -> bool {
    use object_store::Error as E;
    let answered = match error {
        E::InvalidPath { .. } | E::NotSupported { .. } | E::NotImplemented { .. } => return true,
        E::PermissionDenied { .. } | E::Unauthenticated { .. } | E::NotFound { .. } => true,
        _ => false,
    };
    answered && !error.to_string().contains("max_retries:")
}

/// What the server said, or what the client did.
fn reason(error: &object_store::Error) -> String {
    let text = error.to_string();
    if let Some(code) = code_of(&text) {
        return match between(&text, "<Message>", "</Message>") {
            Some(message) => redact(&format!("{code}: {message}")),
            None => code.to_owned(),
        };
    }
    let mut text = redact(&text);
    if let Some((end, _)) = text.char_indices().nth(400) {
        text.truncate(end);
        text.push('…');
    }
    text
}

pub(super) fn code_of(text: &str) -> Option<&str> {
    between(text, "<Code>", "</Code>")
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(inner, _)| inner)
}

/// Names in a URL's query whose values let others in.
const SECRET_QUERY: &[&str] = &[
    "sig=",
    "signature=",
    "x-amz-signature=",
    "x-amz-credential=",
    "x-amz-security-token=",
    "x-goog-signature=",
    "x-goog-credential=",
    "awsaccesskeyid=",
];

/// Takes passwords and signatures out of a text with URLs.
#[must_use]
pub fn redact(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for (index, word) in text.split_inclusive(['?', '&', ' ', '"', '\'', '<', '>']).enumerate() {
        let lower = word.to_ascii_lowercase();
        let secret = index > 0 && SECRET_QUERY.iter().any(|name| lower.starts_with(name));
        match (secret, word.split_once('=')) {
            (true, Some((name, _))) => {
                clean.push_str(name);
                clean.push_str("=***");
                if let Some(end) = word.chars().last().filter(|end| "?& \"'<>".contains(*end)) {
                    clean.push(end);
                }
            }
            _ => clean.push_str(&without_password(word)),
        }
    }
    clean
}

/// `scheme://user:password@host` without the password. `container@account` has none and stays.
fn without_password(word: &str) -> String {
    if let Some((scheme, rest)) = word.split_once("://") {
        let authority = rest.split('/').next().unwrap_or_default();
        if let Some((user, host)) = authority.rsplit_once('@')
            && user.contains(':')
        {
            let tail = rest.strip_prefix(authority).unwrap_or_default();
            return format!("{scheme}://***@{host}{tail}");
        }
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{fault, redact};
    use onefold_types::ErrorKind;

    #[test]
    fn passwords_and_signatures_do_not_survive() {
        let text = "GET https://a.blob/x?sv=1&sig=hunter2&se=3 in 5ms, http://u:hunter2@h/p";
        let clean = redact(text);
        assert!(!clean.contains("hunter2"), "{clean}");
        assert!(clean.contains("sv=1&sig=***&se=3"), "{clean}");
        assert!(clean.contains("http://***@h/p"), "{clean}");
        assert_eq!(redact("abfss://box@account/a"), "abfss://box@account/a");
        assert_eq!(redact("a signature=x"), "a signature=***");
    }

    #[test]
    fn the_body_of_an_answer_is_cut_down_to_code_and_message() {
        let body = "status 403: <Error><Code>SignatureDoesNotMatch</Code><Message>no match\
                    </Message><StringToSign>hunter2</StringToSign></Error>";
        let path = "a".to_owned();
        let error = object_store::Error::PermissionDenied { path, source: body.into() };
        let fault = fault("create", "s3://b/a", &error);
        assert_eq!(fault.kind(), ErrorKind::Invalid);
        assert!(fault.to_string().contains("SignatureDoesNotMatch: no match"), "{fault}");
        assert!(!fault.chain().contains("hunter2"));
    }
}
