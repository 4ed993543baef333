//! The watermark of a term: restored from the log, moved by what each batch saw.

use super::term::frozen_conf;
use crate::conf::Conf;
use onefold_protocol::conf::in_force;
use onefold_protocol::recovery::Facts;
use onefold_protocol::watermark::{WatermarkPolicy, Watermarks};
use onefold_types::Result;

const POLICY: &str = "spark.sql.streaming.multipleWatermarkPolicy";

/// The watermarks as the log left them.
///
/// # Errors
/// Invalid, when the policy is neither `min` nor `max`.
pub(crate) fn restore(conf: &Conf, facts: &Facts) -> Result<Watermarks> {
    let frozen = frozen_conf(facts.last_intent.as_ref(), conf.values());
    let policy = WatermarkPolicy::parse(in_force(POLICY, &frozen, conf.values()).unwrap_or("min"))?;
    let idle_after_ms = conf.duration_ms("onefold.watermark.idleTimeout")?;
    let intended = facts.last_intent.as_ref().map_or(0, |last| last.batch_watermark_ms);
    let committed = facts.last_commit.as_ref().map_or(0, |last| last.next_batch_watermark_ms);
    let nodes = facts.last_commit.as_ref().map(|last| last.watermarks.clone()).unwrap_or_default();
    let idle_after_ms = (idle_after_ms > 0).then_some(idle_after_ms);
    Ok(Watermarks::restore(policy, idle_after_ms, intended.max(committed), nodes))
}
