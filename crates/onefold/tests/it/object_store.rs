//! Whole queries whose checkpoint and output are both in an object store.

use crate::{LIMIT, Place, once_each};
use onefold::types::{ErrorKind, Result};
use onefold::{Process, Session, StreamingQuery, Trigger};
use onefold_testkit::{Operation, S3Fault, S3Server};
use std::collections::BTreeMap;

/// The secret of the test's server: to be found nowhere.
const SECRET: &str = "hunter2";

/// Each session is a process of its own.
fn session(server: &S3Server) -> Session {
    let builder = onefold::session().threads(2).conf("onefold.retry.initialBackoff", "1ms");
    let builder = builder.process(Process::default());
    let settings = server.options();
    settings
        .iter()
        .fold(builder, |builder, (name, value)| builder.conf(name, value))
        .build()
        .unwrap()
}

/// Files of `place` to Parquet below a prefix of the bucket, one file a batch.
fn start(
    session: &Session,
    server: &S3Server,
    place: &Place,
    prefix: &str,
    trigger: Trigger,
) -> Result<StreamingQuery> {
    session
        .read_stream()
        .format("json")
        .schema("id BIGINT, userName STRING")
        .option("maxFilesPerTrigger", "1")
        .load(place.text("in"))?
        .write_stream()
        .format("parquet")
        .option("checkpointLocation", server.url(&format!("{prefix}/checkpoint")))
        .trigger(trigger)
        .start(server.url(&format!("{prefix}/out")))
}

fn run(session: &Session, server: &S3Server, place: &Place, prefix: &str) -> Result<()> {
    let query = start(session, server, place, prefix, Trigger::AvailableNow)?;
    query.await_termination(LIMIT).map(|ended| assert!(ended))
}

/// How often each id stands in the objects that a plain listing of the output shows.
fn ids(server: &S3Server, prefix: &str) -> BTreeMap<i64, usize> {
    let folder = format!("{prefix}/out/");
    let mut seen = BTreeMap::new();
    for key in server.keys() {
        let Some(name) = key.strip_prefix(&folder).filter(|name| !name.starts_with('_')) else {
            continue;
        };
        assert!(name.ends_with(".parquet"), "{name}");
        let object = server.object(&key).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(object);
        for batch in reader.unwrap().build().unwrap() {
            let batch = batch.unwrap();
            let column = batch.column_by_name("id").unwrap();
            let column = column.as_any().downcast_ref::<arrow::array::Int64Array>().unwrap();
            column.values().iter().for_each(|id| *seen.entry(*id).or_insert(0) += 1);
        }
    }
    seen
}

#[test]
fn a_query_in_an_object_store_goes_on_over_restarts() {
    let (server, place) = (S3Server::start().unwrap(), Place::new());
    let session = session(&server);
    place.put("a.json", 0..10);
    place.put("b.json", 10..20);
    run(&session, &server, &place, "one").unwrap();
    assert_eq!(ids(&server, "one"), once_each(0..20));
    place.put("c.json", 20..25);
    let query = start(&session, &server, &place, "one", Trigger::AvailableNow).unwrap();
    query.await_termination(LIMIT).unwrap();
    assert_eq!(query.last_progress().unwrap().batch_id.0, 2);
    assert_eq!(ids(&server, "one"), once_each(0..25));
    assert!(query.explain().guarantee.whole.exactly_once(), "{}", query.explain());
    assert_eq!(server.open_uploads(), 0);
    for batch in 0..3 {
        for key in
            [format!("one/checkpoint/commits/{batch}"), format!("one/out/_spark_metadata/{batch}")]
        {
            assert!(server.object(&key).is_some(), "{key}");
        }
    }
}

#[test]
fn a_driver_that_is_cut_off_at_any_request_loses_and_doubles_nothing() {
    let (server, place) = (S3Server::start().unwrap(), Place::new());
    let session = session(&server);
    place.put("a.json", 0..3);
    place.put("b.json", 3..6);
    let mut cases = 0;
    for done in [false, true] {
        for served in 0.. {
            let prefix = format!("{done}-{served}");
            server.cut_off_after(served, done);
            let outcome = run(&session, &server, &place, &prefix);
            if !server.serve_again() {
                outcome.unwrap();
                assert_eq!(ids(&server, &prefix), once_each(0..6), "{prefix}");
                break;
            }
            cases += 1;
            run(&session, &server, &place, &prefix).unwrap_or_else(|error| {
                panic!("{prefix}: {}", error.chain());
            });
            assert_eq!(ids(&server, &prefix), once_each(0..6), "{prefix}");
            assert_eq!(server.open_uploads(), 0, "{prefix}");
        }
    }
    // Each batch has an intent, an upload with its part and its end, a mark and a commit at least.
    assert!(cases > 2 * 2 * 6, "{cases}");
}

#[test]
fn answers_that_are_lost_or_late_are_survived_by_the_living_driver() {
    let place = Place::new();
    place.put("a.json", 0..3);
    place.put("b.json", 3..6);
    for operation in [
        Operation::Put,
        Operation::StartUpload,
        Operation::PutPart,
        Operation::CompleteUpload,
        Operation::Head,
        Operation::List,
    ] {
        for fault in [S3Fault::SlowDown, S3Fault::ErrorAfter, S3Fault::CutAfter, S3Fault::CutBefore]
        {
            let server = S3Server::start().unwrap();
            (0..3).for_each(|_| server.plan(operation, fault));
            run(&session(&server), &server, &place, "p").unwrap_or_else(|error| {
                panic!("{operation:?} {fault:?}: {}", error.chain());
            });
            assert_eq!(ids(&server, "p"), once_each(0..6), "{operation:?} {fault:?}");
            assert_eq!(server.unmet(), 0, "{operation:?} {fault:?}");
        }
    }
}

#[test]
fn a_second_driver_in_an_object_store_fences_the_first() {
    let (server, place) = (S3Server::start().unwrap(), Place::new());
    place.put("a.json", 0..3);
    let (one, two) = (session(&server), session(&server));
    let first = start(&one, &server, &place, "p", Trigger::default()).unwrap();
    first.process_all_available().unwrap();
    place.put("b.json", 3..6);
    let second = start(&two, &server, &place, "p", Trigger::default()).unwrap();
    second.process_all_available().unwrap();
    place.put("c.json", 6..9);
    let ended = first.await_termination(LIMIT).unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::Fenced, "{}", ended.chain());
    assert!(ended.chain().contains(&format!("pid {}", std::process::id())), "{}", ended.chain());
    second.process_all_available().unwrap();
    second.stop().unwrap();
    assert_eq!(ids(&server, "p"), once_each(0..9));
}

#[test]
fn secrets_stay_out_of_errors_explanations_and_what_is_written() {
    let (server, place) = (S3Server::start().unwrap(), Place::new());
    place.put("a.json", 0..3);
    let session = session(&server);
    let query = start(&session, &server, &place, "p", Trigger::AvailableNow).unwrap();
    query.await_termination(LIMIT).unwrap();
    let told = format!(
        "{} {:?} {:?} {}",
        query.explain(),
        query,
        session,
        query.last_progress().unwrap().json()
    );
    assert!(!told.contains(SECRET), "{told}");
    for key in server.keys() {
        let text = String::from_utf8_lossy(&server.object(&key).unwrap()).into_owned();
        assert!(!text.contains(SECRET), "{key}: {text}");
    }
    server.cut_off_after(0, false);
    let error = run(&session, &server, &place, "p").unwrap_err();
    assert!(error.chain().contains("AccessDenied"), "{}", error.chain());
    assert!(!format!("{error:?} {}", error.chain()).contains(SECRET), "{error:?}");
}

#[test]
fn names_of_sparks_hadoop_settings_open_the_store_too() {
    let (server, place) = (S3Server::start().unwrap(), Place::new());
    place.put("a.json", 0..3);
    let options = server.options();
    let of = |name: &str| options.get(name).unwrap().to_owned();
    let session = onefold::session()
        .threads(2)
        .conf("spark.hadoop.fs.s3a.access.key", of("aws_access_key_id"))
        .conf("spark.hadoop.fs.s3a.secret.key", of("aws_secret_access_key"))
        .conf("spark.hadoop.fs.s3a.endpoint", of("aws_endpoint_url"))
        .conf("spark.hadoop.fs.s3a.endpoint.region", of("aws_region"))
        .conf("spark.hadoop.fs.s3a.path.style.access", "true")
        .build()
        .unwrap();
    run(&session, &server, &place, "p").unwrap();
    assert_eq!(ids(&server, "p"), once_each(0..3));
    let intent = server.object("p/checkpoint/offsets/0").unwrap();
    assert!(!String::from_utf8_lossy(&intent).contains("fs.s3a"), "{intent:?}");
}
