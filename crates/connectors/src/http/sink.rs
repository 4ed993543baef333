//! The sink: rows as requests.
//!
//! Requests are sent while the batch is staged. Each reply is written into the effects log, and a batch that
//! runs again sends only what has no reply there. Publishing puts the batch's mark into the same log.

use super::caller::{Caller, Ended, excerpt};
use super::client::{Call, shown};
use super::options::{SinkOptions, addresses};
use super::rows::{Bodies, Group};
use crate::file_sink::plan_failed;
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use onefold_connector::{
    Attempt, BatchEffects, CallContent, Fence, RowStream, Sink, SinkContext, SinkDefinition,
    SinkEffects, StagedOutput,
};
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_types::{
    BatchId, CallKey, ContentHash, Delivery, Error, Published, Reply, Result, Totals,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// Characters of a reply that are kept: they are for people.
const REPLY_KEPT: usize = 500;

/// The sink as a part of a query.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) options: Arc<SinkOptions>,
}

#[async_trait]
impl SinkDefinition for Definition {
    fn delivery(&self) -> Delivery {
        if self.options.idempotent {
            return Delivery::ExactlyOnce {
                how: "ours: every request has an Idempotency-Key that is the same in each try, and one \
                      whose reply is in the effects log is not sent again; the receiver's, by \
                      idempotentReceiver=true: it does requests of one key once"
                    .to_owned(),
            };
        }
        Delivery::AtLeastOnce {
            why: "a request whose reply was lost in a crash is sent again, with the same \
                  Idempotency-Key; if the receiver does requests of one key once, say so with \
                  idempotentReceiver=true"
                .to_owned(),
        }
    }

    fn description(&self) -> String {
        format!("HttpSink[{} {}]", self.options.method, shown(&self.options.url))
    }

    async fn open(&self, context: SinkContext) -> Result<Arc<dyn Sink>> {
        if context.follows && self.options.idempotent {
            return Err(Error::invalid(
                "requests cannot wait for another sink's decision: write late rows to files, or set \
                 idempotentReceiver=false on this sink",
            ));
        }
        let options = Arc::clone(&self.options);
        let zone = context.conf.get("spark.sql.session.timeZone").map_or("UTC", String::as_str);
        let looks = context.conf.get("onefold.readOnly").is_some_and(|value| value == "true");
        let column = options.body_column.as_deref();
        let bodies = match Bodies::new(&context.schema, column, options.grouping, zone) {
            // Who only looks need not know the columns.
            Err(_) if looks => None,
            bodies => Some(bodies?),
        };
        let caller = Caller::new(options.rules.clone(), addresses(&context.conf)?);
        Ok(Arc::new(HttpSink { caller, bodies, effects: context.effects, options }))
    }
}

#[derive(Debug)]
struct HttpSink {
    options: Arc<SinkOptions>,
    caller: Caller,
    bodies: Option<Bodies>,
    effects: SinkEffects,
}

/// What was staged of a partition, beside its totals.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Staged {
    /// What the receiver refused and the options pass over.
    #[serde(default)]
    refused: Vec<Value>,
}

/// A request that was answered.
struct Answered {
    key: CallKey,
    rows: u64,
    refused: Option<Value>,
}

impl HttpSink {
    /// Sends one group, unless its reply is known.
    async fn send(
        &self,
        effects: &dyn BatchEffects,
        (attempt, partition): (&Attempt, u32),
        group: Group,
    ) -> Result<Answered> {
        let key = effects.next_key(self.content(&group));
        let (first, rows) = (group.first, group.rows);
        let place = |verb: &str| {
            let batch = attempt.batch;
            match rows {
                1 => format!("row {first} of partition {partition} of batch {batch} {verb}"),
                _ => format!(
                    "rows {first} to {} of partition {partition} of batch {batch} {verb}",
                    first.saturating_add(rows - 1)
                ),
            }
        };
        let reply = match effects.recorded(key) {
            Some(reply) => reply,
            None => {
                let call = Call {
                    url: self.options.url.clone(),
                    method: self.options.method.clone(),
                    headers: self.options.headers.clone(),
                    body: group.body.clone(),
                    key,
                };
                let reply = match self.caller.call(&call).await? {
                    Ended::Done(reply) => reply,
                    Ended::Refused(reply) if self.options.skip_refused => reply,
                    Ended::Refused(reply) => {
                        return Err(self.refusal(&place("was refused"), &reply));
                    }
                    Ended::GaveUp(_, error) => {
                        return Err(Error::new(error.kind(), place("was not sent")).because(error));
                    }
                };
                let reply = shortened(reply);
                effects.record(key, reply.clone()).await?;
                reply
            }
        };
        let refused = (!(200..300).contains(&reply.status)).then(|| {
            json!({
                "key": key, "partition": partition, "row": first, "rows": rows,
                "status": reply.status, "reply": reply.body,
                "body": String::from_utf8_lossy(&group.body),
            })
        });
        Ok(Answered { key, rows, refused })
    }

    fn refusal(&self, what: &str, reply: &Reply) -> Error {
        Error::invalid(format!(
            "{what} by {} with status {}{}; correct the row or the receiver and start the query again, or \
             set onRefusal=skip-and-record",
            shown(&self.options.url),
            reply.status,
            excerpt(&reply.body)
        ))
    }

    fn content(&self, group: &Group) -> CallContent {
        CallContent::of(&[
            self.effects.site.as_bytes(),
            self.options.method.as_str().as_bytes(),
            self.options.url.as_str().as_bytes(),
            &group.body,
        ])
    }
}

/// A reply as the sink keeps it.
fn shortened(reply: Reply) -> Reply {
    let body = reply.body.chars().take(REPLY_KEPT).collect();
    Reply { headers: Default::default(), body, ..reply }
}

#[async_trait]
impl Sink for HttpSink {
    async fn last_mark(&self) -> Result<Option<Published>> {
        if !self.options.idempotent {
            return Ok(None);
        }
        self.effects.log.newest_mark().await
    }

    async fn conceal(&self, _: BatchId) -> Result<()> {
        // What was sent cannot be taken back; its replies stay in the log.
        Ok(())
    }

    async fn stage(
        &self,
        attempt: &Attempt,
        partition: u32,
        mut rows: RowStream,
    ) -> Result<StagedOutput> {
        let bodies = self.bodies.as_ref().ok_or_else(|| {
            Error::internal("the http sink was opened to be looked at, and is to send rows")
        })?;
        let effects = self.effects.log.batch(attempt.batch).await?;
        let mut packer = bodies.partition();
        let mut running = FuturesUnordered::new();
        let mut done = Sent::default();
        loop {
            let groups = tokio::select! {
                Some(answered) = running.next(), if !running.is_empty() => {
                    done.take(answered);
                    Ok(Vec::new())
                }
                next = rows.next() => match next {
                    Some(batch) => batch.map_err(plan_failed).and_then(|rows| packer.pack(&rows)),
                    None => break,
                },
            };
            for group in groups.unwrap_or_else(|error| done.fail(error)) {
                while running.len() >= self.caller.rules().at_once {
                    let Some(answered) = running.next().await else { break };
                    done.take(answered);
                }
                if done.error.is_some() {
                    break;
                }
                running.push(self.send(effects.as_ref(), (attempt, partition), group));
            }
            if done.error.is_some() {
                break;
            }
        }
        if let Some(group) = packer.close().filter(|_| done.error.is_none()) {
            running.push(self.send(effects.as_ref(), (attempt, partition), group));
        }
        // Also after an error: who is asked already is heard, so that nobody is asked twice.
        while let Some(answered) = running.next().await {
            done.take(answered);
        }
        let flushed = effects.flush().await;
        let Sent { totals, refused, error } = done;
        match error {
            Some(error) => return Err(error),
            None => flushed?,
        }
        let detail = serde_json::to_value(Staged { refused })
            .map_err(|error| Error::internal("what was refused has no JSON").because(error))?;
        Ok(StagedOutput { partition, totals, detail })
    }

    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        fence: &dyn Fence,
    ) -> Result<Published> {
        let published = crate::noop::published(attempt, &outputs);
        let mut refused = Vec::new();
        for output in outputs {
            let staged: Staged = serde_json::from_value(output.detail).map_err(|error| {
                Error::corrupt("staged requests are noted in an unknown form; use a newer Onefold")
                    .because(error)
            })?;
            refused.extend(staged.refused);
        }
        fence.check().await?;
        if !self.options.idempotent {
            self.effects.log.note_refused(published.mark, refused).await?;
            return Ok(published);
        }
        crash_point(CrashPoint::PublishBeforeMark);
        let published = self.effects.log.publish(published, refused).await?;
        crash_point(CrashPoint::PublishMarked);
        Ok(published)
    }

    async fn settle(&self, _: &Published) -> Result<()> {
        Ok(())
    }

    async fn discard(&self, _: &Attempt) -> Result<()> {
        Ok(())
    }

    async fn audit(&self, _: BatchId) -> Result<Option<Totals>> {
        // What the receiver holds, it alone knows.
        Ok(None)
    }

    fn tells_totals(&self) -> bool {
        // In the mark; without marks there is none to tell, and none is needed.
        true
    }
}

/// What came of the requests of a partition.
#[derive(Default)]
struct Sent {
    totals: Totals,
    refused: Vec<Value>,
    /// The first.
    error: Option<Error>,
}

impl Sent {
    fn take(&mut self, answered: Result<Answered>) {
        match answered {
            Ok(answered) => {
                let hash = ContentHash::default().with(answered.key.0);
                self.totals = self.totals.plus(Totals { rows: answered.rows, hash });
                self.refused.extend(answered.refused);
            }
            Err(error) => drop(self.fail(error)),
        }
    }

    /// Takes an error in place of groups.
    fn fail(&mut self, error: Error) -> Vec<Group> {
        self.error.get_or_insert(error);
        Vec::new()
    }
}
