//! What every sink must pass: the order of calls, with every outside call going wrong in every way.
//!
//! *Why:* a claim of exactly-once is worth what was tried against it. The suite is a small driver
//! that follows the protocol over a world of its own (generations, intents, commits), and a sink
//! whose outside calls a [`Faults`] plan may fail, lose the reply of, or hold up.
//!
//! *Where to start:* [`walk_faults`], [`walk_two_drivers`].

mod driver;
mod effects;
mod faults;

pub use driver::{Outcome, World};
pub use faults::{Fault, Faults, Verdict};

use crate::{Sink, SinkContext};
use async_trait::async_trait;
use onefold_types::{Delivery, Result};
use std::sync::Arc;

/// A place for a sink, empty at first, and the sink over it.
#[async_trait]
pub trait SinkFixture: Send + Sync {
    /// What the sink claims.
    fn delivery(&self) -> Delivery;

    /// Opens the sink for a driver. Each of its outside calls asks the plan first.
    async fn open(&self, context: SinkContext, faults: Arc<Faults>) -> Result<Arc<dyn Sink>>;

    /// The ids that a reader who knows nothing of Onefold sees now, without any fault.
    async fn ids(&self) -> Vec<i64>;

    /// Whether the sink can sum up again what it holds of a batch.
    fn audits(&self) -> bool {
        true
    }

    /// Whether such a reader never sees a row of a committed batch twice, at no moment. Where a
    /// file cannot be taken out of sight again, that holds only once all drivers are at rest.
    fn exact_at_every_moment(&self) -> bool {
        true
    }
}

/// What a walk tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Walked {
    /// Runs of the whole order of calls.
    pub cases: u64,
    /// Faults that were met.
    pub faults: u64,
}

/// Batches of each run.
const BATCHES: u64 = 2;

/// Runs the order of calls with each outside call going wrong in turn, in each way, then restarts
/// without faults: each row arrives once. With `twice`, the restart meets each fault as well.
///
/// # Panics
/// When a row is lost or doubled, or totals do not fit: this is a test.
pub async fn walk_faults<F: SinkFixture>(fresh: impl Fn() -> F, twice: bool) -> Walked {
    let mut walked = Walked::default();
    for fault in Fault::ALL {
        for first in 0.. {
            let mut second = twice.then_some(0);
            let met = loop {
                let (met, met_again) = fault_case(&fresh(), *fault, first, second).await;
                walked.cases += 1;
                walked.faults += u64::from(met) + u64::from(met_again);
                if !met || !met_again {
                    break met;
                }
                second = second.map(|second| second + 1);
            };
            // Every call had its turn.
            if !met {
                break;
            }
        }
    }
    walked
}

/// One case: whether the first and the second fault were met.
async fn fault_case<F: SinkFixture>(
    fixture: &F,
    fault: Fault,
    first: u64,
    second: Option<u64>,
) -> (bool, bool) {
    let case = format!("{fault:?} at call {first}, then at {second:?}");
    let world = World::new(BATCHES);
    let plan = Faults::fail_at(first, fault);
    let outcome = world.drive_until_stopped(fixture, Arc::clone(&plan)).await;
    assert!(plan.met() || outcome == Outcome::Done, "{case}");
    world.check_seen(fixture, &case).await;
    let mut met_again = false;
    if let Some(second) = second.filter(|_| plan.met()) {
        let plan = Faults::fail_at(second, fault);
        world.drive_until_stopped(fixture, Arc::clone(&plan)).await;
        world.check_seen(fixture, &case).await;
        met_again = plan.met();
    }
    world.finish(fixture, &case).await;
    (plan.met(), met_again)
}

/// Holds an old driver up before or after each of its outside calls, and a new one too, in all
/// pairs, lets the old one go on, then the new one: each row arrives once, and no committed batch
/// is ever seen twice. Of the new driver's calls every `stride`-th is tried.
///
/// # Panics
/// When a row is lost or doubled, or totals do not fit: this is a test.
pub async fn walk_two_drivers<F: SinkFixture + 'static>(
    fresh: impl Fn() -> F,
    stride: u64,
) -> Walked {
    let mut walked = Walked::default();
    let mut old_at = 0;
    loop {
        let mut new_at = 0;
        let old_held = loop {
            let fixture = Arc::new(fresh());
            let (old_held, new_held) = two_drivers(&fixture, old_at, new_at).await;
            walked.cases += 1;
            walked.faults += u64::from(old_held) + u64::from(new_held);
            if !old_held || !new_held {
                break old_held;
            }
            new_at += stride.max(1);
        };
        if !old_held {
            return walked;
        }
        old_at += 1;
    }
}

/// One case: whether the old and the new driver were held up.
async fn two_drivers<F: SinkFixture + 'static>(
    fixture: &Arc<F>,
    old_at: u64,
    new_at: u64,
) -> (bool, bool) {
    let case = format!("old driver held at {old_at}, new one at {new_at}");
    let world = Arc::new(World::new(BATCHES));
    let (old_plan, new_plan) = (Faults::hold_at(old_at), Faults::hold_at(new_at));
    let start = |plan: &Arc<Faults>| {
        let (world, fixture, plan) = (Arc::clone(&world), Arc::clone(fixture), Arc::clone(plan));
        tokio::spawn(async move {
            let outcome = world.drive_until_stopped(&*fixture, Arc::clone(&plan)).await;
            plan.end();
            outcome
        })
    };
    let old = start(&old_plan);
    let old_held = old_plan.held().await;
    let new = start(&new_plan);
    let new_held = new_plan.held().await;
    world.check_seen(&**fixture, &case).await;
    old_plan.let_go();
    let old = old.await;
    assert!(old.is_ok(), "{case}: the old driver panicked");
    world.check_seen(&**fixture, &case).await;
    new_plan.let_go();
    let new = new.await;
    assert!(new.is_ok(), "{case}: the new driver panicked");
    world.check_seen(&**fixture, &case).await;
    world.finish(&**fixture, &case).await;
    (old_held, new_held)
}

/// Runs batches without any fault: every row arrives at least once.
///
/// # Panics
/// When a row is lost: this is a test.
pub async fn walk_plain<F: SinkFixture>(fresh: impl Fn() -> F) -> Walked {
    let fixture = fresh();
    let world = World::new(BATCHES);
    let outcome = world.drive_until_stopped(&fixture, Faults::none()).await;
    assert_eq!(outcome, Outcome::Done);
    let mut seen = fixture.ids().await;
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, world.all_ids(), "rows are lost");
    Walked { cases: 1, faults: 0 }
}
