//! Runs that kill the command more often than a test has time for.

use crate::ci;

/// Kills unless told otherwise.
const KILLS: &str = "300";

/// Records that are delivered at least, and records a batch: so many that each kill may meet another
/// batch.
const RECORDS: &str = "1000000";
const PER_BATCH: &str = "800";

/// Kills a pipeline from Kafka to Kafka again and again, then counts what came.
///
/// # Errors
/// When anything else is named, the build fails, or a record is lost, doubled or out of order.
pub fn run(args: &[String]) -> Result<(), String> {
    let kills = match args {
        [what] if what == "kafka" => KILLS,
        [what, kills] if what == "kafka" && kills.parse::<u32>().is_ok() => kills.as_str(),
        _ => return Err("crash takes the name of a suite, kafka, and maybe how many kills".into()),
    };
    let settings = [
        ("ONEFOLD_KAFKA_KILLS", kills),
        ("ONEFOLD_KAFKA_RECORDS", RECORDS),
        ("ONEFOLD_KAFKA_BATCH", PER_BATCH),
    ];
    let test = "test_random_kills_lose_nothing_double_nothing_and_keep_the_order and FromKafka";
    ci::end_to_end_with(&settings, &["-s", "test_kafka_faults.py", "-k", test])
}
