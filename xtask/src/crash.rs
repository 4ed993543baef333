//! Runs that kill the command more often than a test has time for.

use crate::ci;

/// Kills unless told otherwise.
const KILLS: &str = "300";

/// A run: its name, the variable that says how many kills, further settings, and which tests it is.
struct Suite {
    name: &'static str,
    kills: &'static str,
    settings: &'static [(&'static str, &'static str)],
    tests: [&'static str; 3],
}

const SUITES: [Suite; 2] = [
    Suite {
        name: "kafka",
        kills: "ONEFOLD_KAFKA_KILLS",
        // So many records a batch that each kill may meet another one.
        settings: &[("ONEFOLD_KAFKA_RECORDS", "1000000"), ("ONEFOLD_KAFKA_BATCH", "800")],
        tests: [
            "test_kafka_faults.py",
            "-k",
            "test_random_kills_lose_nothing_double_nothing_and_keep_the_order and FromKafka",
        ],
    },
    Suite {
        name: "databases",
        kills: "ONEFOLD_DATABASE_KILLS",
        settings: &[],
        tests: ["test_jdbc_kills.py", "-k", "test_random_kills"],
    },
];

/// Kills a pipeline again and again, then counts what came with the other side's own client.
///
/// # Errors
/// When anything else is named, the build fails, or a record is lost or doubled (in Kafka also: out of
/// order).
pub fn run(args: &[String]) -> Result<(), String> {
    let (name, kills) = match args {
        [name] => (name, KILLS),
        [name, kills] if kills.parse::<u32>().is_ok() => (name, kills.as_str()),
        _ => return Err(usage()),
    };
    let suite = SUITES.iter().find(|suite| suite.name == name).ok_or_else(usage)?;
    let kills = [(suite.kills, kills)];
    let settings: Vec<_> = kills.iter().chain(suite.settings).copied().collect();
    let [file, only, tests] = suite.tests;
    ci::end_to_end_with(&settings, &["-s", file, only, tests])
}

fn usage() -> String {
    let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
    format!("crash takes the name of a suite, {}, and maybe how many kills", names.join(" or "))
}
