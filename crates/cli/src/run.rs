//! `onefold run`: the streaming tables of a pipeline file, one query each, until they end or someone
//! asks to stop.

mod progress_line;

use crate::args::RunArgs;
use crate::exit::Failure;
use crate::pipeline_file::PipelineFile;
use crate::{signals, terminal};
use onefold::{
    QueryTerminated, Session, StreamingQuery, StreamingQueryListener, StreamingQueryProgress,
    Trigger,
};
use progress_line::ProgressTable;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// What the main thread waits for.
enum Event {
    /// All tables are started, or one cannot start and the others are stopped.
    Started(Result<Vec<StreamingQuery>, Failure>),
    Progress(Box<StreamingQueryProgress>),
    Terminated(QueryTerminated),
    Signal,
}

/// Passes what happens to the main thread.
struct Forward {
    events: Mutex<Sender<Event>>,
}

impl Forward {
    fn send(&self, event: Event) {
        // Once the main thread is gone nobody is interested.
        let _ = self.events.lock().unwrap_or_else(PoisonError::into_inner).send(event);
    }
}

impl StreamingQueryListener for Forward {
    fn on_query_progress(&self, progress: &StreamingQueryProgress) {
        self.send(Event::Progress(Box::new(progress.clone())));
    }

    fn on_query_terminated(&self, event: &QueryTerminated) {
        self.send(Event::Terminated(event.clone()));
    }
}

/// Runs a pipeline.
///
/// # Errors
/// With the exit codes of [`crate::exit`].
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let trigger = trigger(args)?;
    let pipeline = PipelineFile::read(&args.pipeline)?;
    let session = pipeline.session()?;
    let (sender, events) = listen(&session)?;
    start_in_background(pipeline, session.clone(), trigger, sender);
    let queries = wait(&session, trigger, &events)?;
    first_failure(&queries).map_or(Ok(()), Err)
}

/// A table that reads another one starts when that one has ended; meanwhile progress is printed and
/// signals are heard.
fn start_in_background(
    pipeline: PipelineFile,
    session: Session,
    trigger: Trigger,
    sender: Sender<Event>,
) {
    std::thread::spawn(move || {
        let started = pipeline.start(&session, trigger);
        // Once the main thread is gone nobody is interested.
        let _ = sender.send(Event::Started(started));
    });
}

fn trigger(args: &RunArgs) -> Result<Trigger, Failure> {
    match &args.trigger {
        Some(text) => Ok(text.parse()?),
        None if args.once => Ok(Trigger::Once),
        None => Ok(Trigger::default()),
    }
}

/// Before any query starts, so that nothing is missed.
fn listen(session: &Session) -> Result<(Sender<Event>, Receiver<Event>), Failure> {
    let (sender, events) = channel();
    let (on_signal, forward) = (sender.clone(), sender.clone());
    signals::watch(move || {
        let _ = on_signal.send(Event::Signal);
    })?;
    session.streams().add_listener(Arc::new(Forward { events: Mutex::new(forward) }));
    Ok((sender, events))
}

/// Prints progress until every query has ended. One that fails ends the others too, unless they end
/// by themselves.
fn wait(
    session: &Session,
    trigger: Trigger,
    events: &Receiver<Event>,
) -> Result<Vec<StreamingQuery>, Failure> {
    let mut queries: Option<Vec<StreamingQuery>> = None;
    let mut ended = 0;
    let mut stopping = false;
    let mut table = terminal::interactive().then(ProgressTable::default);
    while queries.as_ref().is_none_or(|queries| ended < queries.len()) {
        let Ok(event) = events.recv() else { break };
        match event {
            Event::Started(started) => {
                queries = Some(match started {
                    // Some were still starting when they were asked to stop.
                    Err(_) if stopping => Vec::new(),
                    started => started?,
                });
                if stopping {
                    // Those that started after the signal.
                    stop_in_background(session);
                }
            }
            Event::Progress(progress) => match &mut table {
                Some(table) => table.lines(&progress).iter().for_each(|row| terminal::line(row)),
                // What a program reads is not to be mixed with rows.
                None if progress.sink.description.starts_with("ConsoleSink[") => {
                    terminal::note(&progress.json());
                }
                None => terminal::line(&progress.json()),
            },
            Event::Terminated(end) => {
                ended += 1;
                if end.exception.is_some() && !trigger.ends() && !stopping {
                    stopping = true;
                    stop_in_background(session);
                }
            }
            Event::Signal if stopping => {
                terminal::note("stopping at once; the next start goes on from the checkpoint");
                std::process::exit(i32::from(crate::exit::DONE));
            }
            Event::Signal => {
                stopping = true;
                if terminal::interactive() {
                    terminal::note("stopping cleanly (again to stop at once)");
                }
                stop_in_background(session);
            }
        }
    }
    Ok(queries.unwrap_or_default())
}

/// Stopping blocks until the batch in flight is over or given up; meanwhile progress goes on being
/// printed, and another signal is heard.
fn stop_in_background(session: &Session) {
    let session = session.clone();
    std::thread::spawn(move || {
        if let Err(error) = session.stop() {
            terminal::error(&error.chain());
        }
    });
}

/// The failure of the first table, in order, whose query failed; all are printed. The event of an
/// end can be heard before the query itself says why, so that each is waited for.
fn first_failure(queries: &[StreamingQuery]) -> Option<Failure> {
    let failures: Vec<_> = queries
        .iter()
        .filter_map(|query| query.await_termination(None).err())
        .map(|error| Failure::of_query(&error))
        .collect();
    for failure in failures.iter().skip(1) {
        if let Some(text) = failure.text() {
            terminal::error(text);
        }
    }
    failures.into_iter().next()
}
