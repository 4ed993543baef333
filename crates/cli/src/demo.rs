//! `onefold demo`: a stream of orders that is killed again and again, and every order counted at the
//! end.
//!
//! The stream is an ordinary `onefold run` in a process of its own, ended by SIGKILL while batches
//! are in flight. What is counted is what any reader finds in the output folder: the Parquet files
//! of a plain listing, read with nothing of Onefold's.

mod child;
mod count;
mod events;
mod kill_plan;
mod place;

use crate::args::DemoArgs;
use crate::exit::Failure;
use crate::table::{aligned, grouped};
use crate::{signals, terminal};
use child::{Child, End};
use count::Count;
use events::Maker;
use kill_plan::{Kill, KillPlan};
use place::Place;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What happened to one start of the stream.
struct Killed {
    /// Where in the protocol it died.
    at: String,
    /// The newest batch that it said was over.
    batch: Option<u64>,
}

/// Runs the demonstration.
///
/// # Errors
/// Not whole, when an event is lost or doubled; failed, when the stream could not be run.
pub fn demo(args: &DemoArgs) -> Result<(), Failure> {
    let asked_to_stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&asked_to_stop);
    signals::watch(move || flag.store(true, Ordering::SeqCst))?;

    let began = Instant::now();
    let place = Place::make(args.dir.as_deref(), args.keep)?;
    terminal::line(&format!(
        "{} orders as JSON files -> onefold run -> Parquet files, killed {} times",
        grouped(args.events),
        args.kills
    ));
    let mut maker = Maker::start(&place.input, args.events, args.seed)?;
    let mut killed = Vec::new();
    let mut plan = KillPlan::new(args.seed);
    for number in 1..=args.kills {
        let shares = u64::from(args.kills - number) + 1;
        maker.make_share(shares + 1);
        let kill = plan.next();
        let end = run_until_killed(&place, &kill, number, args.kills, &asked_to_stop)?;
        terminal::clear_status();
        terminal::line(&format!(
            "  killed {number:>3}  {:<22}  {}",
            end.at,
            end.batch.map_or("before its first batch was over".to_owned(), |batch| format!(
                "batch {batch} was over"
            ))
        ));
        killed.push(end);
    }
    maker.make_share(1);
    maker.finish()?;
    drain(&place, &asked_to_stop)?;
    let count = count::count(&place.output, args.events)?;
    report(args, &place, &killed, &count, began);
    if count.exact() { Ok(()) } else { Err(Failure::not_whole()) }
}

/// Starts the stream and lets it die at the chosen point.
fn run_until_killed(
    place: &Place,
    kill: &Kill,
    number: u32,
    kills: u32,
    asked_to_stop: &AtomicBool,
) -> Result<Killed, Failure> {
    let mut child = Child::start(place, kill.environment(), &[])?;
    let end = child.until_dead(kill.patience(), asked_to_stop, |batch| {
        terminal::status(&format!("  run {number} of {kills}: batch {batch} is over"));
    })?;
    let at = match end {
        End::Killed if kill.point().is_some() => kill.point().unwrap_or_default().to_owned(),
        // The point was not reached, or there are none in this build: a kill from outside, named
        // by what it left.
        End::Killed | End::Outlived => {
            child.kill()?;
            place.where_it_died()
        }
        End::Exited(code) => return Err(child.failure(code)),
        End::Interrupted => {
            child.kill()?;
            return Err(Failure::failed("stopped before the end, nothing was counted"));
        }
    };
    Ok(Killed { at, batch: child.last_batch() })
}

/// Runs what is left to its end.
fn drain(place: &Place, asked_to_stop: &AtomicBool) -> Result<(), Failure> {
    let mut child = Child::start(place, None, &["--trigger", "available-now"])?;
    let end = child.until_dead(child::DRAIN_PATIENCE, asked_to_stop, |batch| {
        terminal::status(&format!("  draining: batch {batch} is over"));
    })?;
    terminal::clear_status();
    match end {
        End::Exited(Some(0)) => Ok(()),
        End::Exited(code) => Err(child.failure(code)),
        End::Killed => Err(Failure::failed("the draining run was killed by someone else")),
        End::Interrupted => {
            child.kill()?;
            Err(Failure::failed("stopped before the end, nothing was counted"))
        }
        End::Outlived => {
            child.kill()?;
            Err(Failure::failed(format!(
                "the draining run did not end within {} s: see {} (kept with --keep)",
                child::DRAIN_PATIENCE.as_secs(),
                place.log.display()
            )))
        }
    }
}

fn report(args: &DemoArgs, place: &Place, killed: &[Killed], count: &Count, began: Instant) {
    let mut rows = vec![
        vec!["events".to_owned(), grouped(args.events)],
        vec!["kills".to_owned(), grouped(killed.len() as u64)],
        vec!["batches".to_owned(), grouped(place.batches())],
        vec!["files at the sink".to_owned(), grouped(count.files)],
        vec!["rows at the sink".to_owned(), grouped(count.rows)],
        vec!["lost".to_owned(), grouped(count.lost)],
        vec!["duplicated".to_owned(), grouped(count.duplicated)],
    ];
    if count.foreign > 0 {
        rows.push(vec!["never made".to_owned(), grouped(count.foreign)]);
    }
    terminal::line("");
    rows.insert(0, Vec::new());
    for row in aligned(&rows).iter().skip(1) {
        terminal::line(row);
    }
    terminal::line("");
    terminal::line(&format!("in {:.1} s", began.elapsed().as_secs_f64()));
    if args.keep {
        terminal::line("");
        terminal::line("see more:");
        terminal::line(&format!("  onefold checkpoint show {}", place.checkpoint.display()));
        terminal::line(&format!("  onefold verify {}", place.checkpoint.display()));
        terminal::line(&format!("  onefold explain {}", place.pipeline.display()));
    } else {
        terminal::line("nothing is left behind; with --keep, look at what it made");
    }
}
