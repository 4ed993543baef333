//! `--command-config`: options of a sink that no checkpoint holds, from a file, so that secrets stand in
//! no command line.

use crate::args::Reach;
use onefold::types::{Error, Result};
use std::path::{Path, PathBuf};

/// Names the file where the option does not.
const VARIABLE: &str = "ONEFOLD_COMMAND_CONFIG";

/// What the file says, in its order; nothing without a file.
///
/// # Errors
/// Invalid, when it cannot be read or a line is none of NAME=VALUE. No value is told.
pub fn read(reach: &Reach) -> Result<Vec<(String, String)>> {
    let of_environment = || std::env::var_os(VARIABLE).map(PathBuf::from);
    let Some(path) = reach.command_config.clone().or_else(of_environment) else {
        return Ok(Vec::new());
    };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Error::invalid(format!("the file {} of --command-config cannot be read", path.display()))
            .because(error)
    })?;
    parse(&text, &path)
}

fn parse(text: &str, path: &Path) -> Result<Vec<(String, String)>> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| match line.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                Ok((name.trim().to_owned(), value.trim().replace("\\n", "\n")))
            }
            _ => Err(Error::invalid(format!(
                "line {number} of {} is not NAME=VALUE, such as kafka.sasl.password=…",
                path.display()
            ))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_options_and_a_wrong_one_is_told_by_its_number_alone() {
        let text = "# of the cluster\n\n kafka.sasl.password = a=b \nkafka.x=1\\n2\n";
        let read = parse(text, Path::new("f")).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read, [pair("kafka.sasl.password", "a=b"), pair("kafka.x", "1\n2")]);
        let error = parse("a=b\nhunter2\n", Path::new("f")).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
