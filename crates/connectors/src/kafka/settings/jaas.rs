//! Who logs in, as Kafka's Java clients are told it:
//! `org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";`

use onefold_types::{Error, Result, Secret};

/// A name and a password.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) username: String,
    pub(super) password: Secret,
    /// The module is that of SCRAM, not that of PLAIN.
    pub(super) scram: bool,
}

/// Reads the text of `sasl.jaas.config`. Errors hold nothing of it but the module's name.
pub(super) fn parse(text: &str) -> Result<Login> {
    let mut words = words(text)?.into_iter();
    let module = words.next().unwrap_or_default();
    let class = module.rsplit('.').next().unwrap_or_default();
    let scram = match class {
        "PlainLoginModule" => false,
        "ScramLoginModule" => true,
        _ => {
            return Err(Error::invalid(
                "the login module of kafka.sasl.jaas.config is not supported; there are \
                 PlainLoginModule and ScramLoginModule",
            ));
        }
    };
    let (mut username, mut password) = (None, None);
    for word in words {
        match word.split_once('=') {
            Some(("username", value)) => username = Some(value.to_owned()),
            Some(("password", value)) => password = Some(Secret::new(value)),
            // `required`, and options such as `tokenauth`.
            _ => (),
        }
    }
    match (username, password) {
        (Some(username), Some(password)) => Ok(Login { username, password, scram }),
        _ => Err(Error::invalid(
            "kafka.sasl.jaas.config has no username or no password; write \
             `… required username=\"…\" password=\"…\";`",
        )),
    }
}

/// Words between white space, without quotes; a quoted part keeps its white space.
fn words(text: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), '\\') => {
                if let Some(next) = letters.next() {
                    word.get_or_insert_default().push(next);
                }
            }
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ';') => break,
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err(Error::invalid("a quote in kafka.sasl.jaas.config is not closed"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_login_is_read_as_java_writes_it() {
        let text = "org.apache.kafka.common.security.plain.PlainLoginModule required\n \
                    username=\"al ice\" password='p\\'=;\"w';";
        let login = parse(text).unwrap();
        assert_eq!(login.username, "al ice");
        assert_eq!(login.password.expose(), "p'=;\"w");
        assert!(!login.scram);
        let text = "org.apache.kafka.common.security.scram.ScramLoginModule required \
                    username=alice password=pw;";
        assert!(parse(text).unwrap().scram);
    }

    #[test]
    fn errors_hold_nothing_of_the_text() {
        for text in [
            "",
            "com.sun.security.auth.module.Krb5LoginModule required password=\"hunter2\";",
            "x.PlainLoginModule required password=\"hunter2\";",
            "x.PlainLoginModule required username=\"a\" password=\"hunter2",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.chain().contains("hunter2"), "{error:?}");
        }
    }
}
