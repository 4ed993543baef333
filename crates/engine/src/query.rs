//! The handle of a running query, and what handle and run share.

use crate::explain::Explanation;
use crate::progress::StreamingQueryProgress;
use crate::session::Session;
use crate::status::{StreamingQueryException, StreamingQueryStatus};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use onefold_plan::speech::in_sql;
use onefold_types::{Error, QueryId, Result, RunId};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// A running query, as Spark's `StreamingQuery`. Cheap to clone; dropping it does not stop the
/// query. All calls block and may be made from any thread.
#[derive(Clone)]
pub struct StreamingQuery {
    pub(crate) session: Session,
    pub(crate) shared: Arc<QueryShared>,
}

/// What the handle and the run share.
pub(crate) struct QueryShared {
    pub(crate) id: QueryId,
    pub(crate) run_id: RunId,
    pub(crate) name: Option<String>,
    /// How long `stop` waits, if not for ever.
    pub(crate) stop_limit: Option<Duration>,
    /// How many entries of progress are kept.
    pub(crate) recent_max: usize,
    view: Mutex<View>,
    signals: watch::Sender<Signals>,
}

/// What a user sees of the query.
struct View {
    status: StreamingQueryStatus,
    recent: VecDeque<Arc<StreamingQueryProgress>>,
    exception: Option<StreamingQueryException>,
    explanation: Arc<Explanation>,
    /// The plan of the newest batch; made into text only when somebody asks.
    physical_plan: Option<Arc<dyn ExecutionPlan>>,
}

/// What handle and run tell each other.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Signals {
    /// The user asked to stop.
    pub(crate) stop: bool,
    /// The run is over.
    pub(crate) ended: bool,
    /// How many looks for data have begun.
    pub(crate) looks: u64,
    /// The number of the last look that found nothing to do.
    pub(crate) idle_look: u64,
    /// Somebody waits for an idle look of at least this number: looks are not put off until then.
    pub(crate) hurry: u64,
}

impl QueryShared {
    pub(crate) fn new(
        id: QueryId,
        run_id: RunId,
        name: Option<String>,
        limits: (Option<Duration>, usize),
        explanation: Explanation,
    ) -> Self {
        let status = StreamingQueryStatus {
            message: "Initializing sources".to_owned(),
            is_data_available: false,
            is_trigger_active: false,
        };
        let view = View {
            status,
            recent: VecDeque::new(),
            exception: None,
            explanation: Arc::new(explanation),
            physical_plan: None,
        };
        QueryShared {
            id,
            run_id,
            name,
            stop_limit: limits.0,
            recent_max: limits.1,
            view: Mutex::new(view),
            signals: watch::Sender::new(Signals::default()),
        }
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn say(&self, message: &str, active: bool) {
        let status = &mut self.view().status;
        message.clone_into(&mut status.message);
        status.is_trigger_active = active;
    }

    pub(crate) fn set_data_available(&self, available: bool) {
        self.view().status.is_data_available = available;
    }

    pub(crate) fn push_progress(&self, progress: Arc<StreamingQueryProgress>) {
        let recent = &mut self.view().recent;
        while recent.len() >= self.recent_max {
            recent.pop_front();
        }
        recent.push_back(progress);
    }

    pub(crate) fn set_physical_plan(&self, plan: Arc<dyn ExecutionPlan>) {
        self.view().physical_plan = Some(plan);
    }

    pub(crate) fn exception_of(&self, error: &Error) -> StreamingQueryException {
        StreamingQueryException {
            id: self.id,
            run_id: self.run_id,
            name: self.name.clone(),
            kind: error.kind(),
            message: in_sql(&error.chain()),
        }
    }

    pub(crate) fn signals(&self) -> watch::Receiver<Signals> {
        self.signals.subscribe()
    }

    pub(crate) fn signal(&self, change: impl FnOnce(&mut Signals)) {
        self.signals.send_modify(change);
    }

    pub(crate) fn stop_asked(&self) -> bool {
        self.signals.borrow().stop
    }

    pub(crate) fn ended(&self) -> bool {
        self.signals.borrow().ended
    }

    /// Waits until the user asks to stop.
    pub(crate) async fn until_stop(&self) {
        let mut signals = self.signals();
        // The sender lives in `self`, so that waiting ends only by the condition.
        let _ = signals.wait_for(|now| now.stop).await;
    }

    /// The last words of the run.
    pub(crate) fn end(&self, exception: Option<StreamingQueryException>) {
        {
            let view = &mut self.view();
            view.status = StreamingQueryStatus {
                message: match &exception {
                    Some(exception) => format!("Terminated with exception: {}", exception.message),
                    None => "Stopped".to_owned(),
                },
                is_data_available: false,
                is_trigger_active: false,
            };
            view.exception = exception;
        }
        self.signal(|now| now.ended = true);
    }
}

impl StreamingQuery {
    /// The query's id; it stays the same over restarts on the same checkpoint.
    #[must_use]
    pub fn id(&self) -> QueryId {
        self.shared.id
    }

    /// This run's id.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        self.shared.run_id
    }

    /// The name given by `query_name`.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.shared.name.as_deref()
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.shared.ended()
    }

    /// What it is doing now.
    #[must_use]
    pub fn status(&self) -> StreamingQueryStatus {
        self.shared.view().status.clone()
    }

    /// What the newest batch did; `None` before the first.
    #[must_use]
    pub fn last_progress(&self) -> Option<Arc<StreamingQueryProgress>> {
        self.shared.view().recent.back().cloned()
    }

    /// What the newest batches did (`spark.sql.streaming.numRecentProgressUpdates`), oldest first.
    #[must_use]
    pub fn recent_progress(&self) -> Vec<Arc<StreamingQueryProgress>> {
        self.shared.view().recent.iter().cloned().collect()
    }

    /// Why it ended, if by an error.
    #[must_use]
    pub fn exception(&self) -> Option<StreamingQueryException> {
        self.shared.view().exception.clone()
    }

    /// What it does and what it promises.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        let (explanation, plan) = {
            let view = self.shared.view();
            (Arc::clone(&view.explanation), view.physical_plan.clone())
        };
        let mut explanation = Explanation::clone(&explanation);
        explanation.physical_plan =
            plan.map(|plan| displayable(plan.as_ref()).indent(false).to_string());
        explanation
    }

    /// Waits until the query ends, or for at most `limit`; true when it has ended.
    ///
    /// # Errors
    /// The one by which the query ended.
    pub fn await_termination(&self, limit: Option<Duration>) -> Result<bool> {
        let mut signals = self.shared.signals();
        let ended = self.session.inner.tasks.wait_for(
            async move {
                let _ = signals.wait_for(|now| now.ended).await;
                Ok(())
            },
            limit,
        )?;
        match self.exception() {
            Some(exception) if ended.is_some() => Err(exception.to_error()),
            _ => Ok(ended.is_some()),
        }
    }

    /// Waits until all data that the sources hold now is in the sink. For tests: with a source that
    /// never rests it may wait for ever.
    ///
    /// # Errors
    /// The one by which the query ended meanwhile.
    pub fn process_all_available(&self) -> Result<()> {
        let mut signals = self.shared.signals();
        let begun = signals.borrow().looks;
        self.shared.signal(|now| now.hurry = now.hurry.max(begun.saturating_add(1)));
        self.session.inner.tasks.wait(async move {
            let _ = signals.wait_for(|now| now.ended || now.idle_look > begun).await;
            Ok(())
        })?;
        match self.exception() {
            Some(exception) => Err(exception.to_error()),
            None => Ok(()),
        }
    }

    /// Asks the query to stop and does not wait until it has. A batch that fails from now on does
    /// not count as a failure of the query: the next start runs it again.
    pub fn ask_to_stop(&self) {
        self.shared.signal(|now| now.stop = true);
    }

    /// Stops it: a batch in flight that is not yet published is given up and run again at the next
    /// start. Waits until all is still (`spark.sql.streaming.stopTimeout`). A query that has ended
    /// is fine.
    ///
    /// # Errors
    /// Unavailable, when the query did not end in time.
    pub fn stop(&self) -> Result<()> {
        self.ask_to_stop();
        let mut signals = self.shared.signals();
        let limit = self.shared.stop_limit;
        let ended = self.session.inner.tasks.wait_for(
            async move {
                let _ = signals.wait_for(|now| now.ended).await;
                Ok(())
            },
            limit,
        )?;
        if ended.is_some() {
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "query {} did not end within spark.sql.streaming.stopTimeout; it will end when its \
             storage answers",
            self.shared.id
        )))
    }
}

impl fmt::Debug for StreamingQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamingQuery")
            .field("id", &self.shared.id)
            .field("run_id", &self.shared.run_id)
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}
