//! Which options go together.

use super::*;
use onefold_connector::OptionSpec;
use onefold_types::OptionMap;

static TABLE: &[&[OptionSpec]] = &[OPTIONS];

fn choice(pairs: &[(&str, &str)], whole: bool) -> Result<Choice> {
    let given: OptionMap = pairs.iter().copied().collect();
    Choice::of(&Options::check("source `kafka`", TABLE, given)?, whole)
}

fn refused(pairs: &[(&str, &str)], whole: bool) -> String {
    choice(pairs, whole).unwrap_err().to_string()
}

#[test]
fn exactly_one_way_to_name_topics_is_given() {
    assert!(refused(&[], false).contains("one of these options must be given"));
    let two = refused(&[("subscribe", "t"), ("subscribePattern", "t.*")], false);
    assert!(two.contains("only one of these options"), "{two}");
    for (name, value) in
        [("subscribe", " , "), ("subscribePattern", ""), ("assign", "{}"), ("assign", "t")]
    {
        assert!(refused(&[(name, value)], false).contains("but takes"), "{name} {value}");
    }
}

#[test]
fn topics_are_described_as_in_spark() {
    let shown = |name, value| choice(&[(name, value)], false).unwrap().topics.to_string();
    assert_eq!(shown("subscribe", "b, a.B,a.B"), "Subscribe[a.B, b]");
    assert_eq!(shown("subscribePattern", "t.*"), "SubscribePattern[t.*]");
    assert_eq!(shown("assign", "{\"t\":[1,0]}"), "Assign[t-0, t-1]");
}

#[test]
fn a_pattern_matches_whole_names() {
    let Topics::Pattern { regex, .. } =
        choice(&[("subscribePattern", "a|b.c")], false).unwrap().topics
    else {
        panic!("a pattern");
    };
    assert!(regex.is_match("a") && regex.is_match("bxc") && !regex.is_match("ab"));
    let error = refused(&[("subscribePattern", "(?!x)")], false);
    assert!(error.contains("not a regular expression"), "{error}");
}

#[test]
fn a_stream_starts_at_the_end_and_a_table_at_the_beginning() {
    assert_eq!(choice(&[("subscribe", "t")], false).unwrap().starting, Bound::Latest);
    assert_eq!(choice(&[("subscribe", "t")], true).unwrap().starting, Bound::Earliest);
    assert_eq!(choice(&[("subscribe", "t")], true).unwrap().ending, Bound::Latest);
}

#[test]
fn times_win_over_offsets_as_in_spark() {
    let offsets = ("startingOffsets", "{\"t\":{\"0\":-1}}");
    let times = ("startingOffsetsByTimestamp", "{\"t\":{\"0\":7}}");
    let topic = ("subscribe", "t");
    let t0 = || TopicPartition::new("t", 0);
    let starting = |pairs: &[_]| choice(pairs, false).unwrap().starting;
    assert_eq!(starting(&[topic, offsets]), Bound::Offsets([(t0(), LATEST)].into()));
    assert_eq!(starting(&[topic, offsets, times]), Bound::Times([(t0(), 7)].into()));
    let all = [topic, offsets, times, ("startingTimestamp", "9")];
    assert_eq!(starting(&all), Bound::Time(9));
}

#[test]
fn ends_that_make_no_sense_are_refused_as_in_spark() {
    let with = |pair, whole| refused(&[("subscribe", "t"), pair], whole);
    for name in ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"] {
        let error = with((name, "latest"), false);
        assert!(error.contains("ending offset not valid in streaming queries"), "{error}");
    }
    for value in ["latest", "{\"t\":{\"0\":-1}}"] {
        let error = with(("startingOffsets", value), true);
        assert!(error.contains("starting offset can't be latest for batch queries"), "{error}");
    }
    for value in ["EARLIEST", "{\"t\":{\"0\":-2}}"] {
        let error = with(("endingOffsets", value), true);
        assert!(error.contains("ending offset can't be earliest for batch queries"), "{error}");
    }
    for value in ["yesterday", "{\"t\":{\"0\":-3}}", "{\"t\":[0]}"] {
        assert!(with(("startingOffsets", value), false).contains("takes earliest, latest"));
    }
    assert!(with(("startingTimestamp", "-1"), false).contains("milliseconds since 1970"));
    assert!(with(("startingOffsetsByTimestamp", "{}x"), false).contains("by partition"));
}

#[test]
fn limits_must_fit_one_another() {
    let limits = |min, max| {
        choice(
            &[("subscribe", "t"), ("minOffsetsPerTrigger", min), ("maxOffsetsPerTrigger", max)],
            false,
        )
    };
    assert_eq!(limits("5", "5").unwrap().patience, Some(Patience { min: 5, delay_ms: 900_000 }));
    let error = limits("6", "5").unwrap_err().to_string();
    assert!(error.contains("minOffsetsPerTrigger (6) is higher"), "{error}");
    assert!(refused(&[("subscribe", "t"), ("minPartitions", "0")], false).contains("from 1"));
}
