//! The sinks of a query in one term: the main one and further ones, of which one decides each
//! batch.
//!
//! # Invariants
//! - What a follower publishes of a batch is of the driver whose output the decider holds.
//! - Once the decider holds a batch, nothing that its driver staged for followers is thrown away.

use super::definition::QueryDefinition;
use onefold_connector::{Attempt, Fence, Sink, SinkContext, StagedOutput};
use onefold_protocol::recovery::{Facts, Follower, Unpublished, took_part};
use onefold_protocol::sinks::Roles;
use onefold_types::{BatchId, Error, ErrorKind, Published, Result};
use std::sync::Arc;

/// A sink of the query, opened by this driver.
#[derive(Debug, Clone)]
struct OpenSink {
    /// Its name; `None` for the main sink.
    name: Option<String>,
    description: String,
    sink: Arc<dyn Sink>,
}

/// The open sinks of a query, the main one first.
#[derive(Debug, Clone)]
pub(crate) struct Sinks {
    all: Vec<OpenSink>,
    roles: Roles,
}

/// What the sinks say of themselves.
#[derive(Debug, Clone)]
pub(crate) struct Marks {
    /// Whether there is a decider.
    pub(crate) keeps: bool,
    /// The decider's name, if it is not the main sink.
    pub(crate) decider: Option<String>,
    pub(crate) mark: Option<Published>,
    pub(crate) followers: Vec<Follower>,
}

/// What came of publishing a batch.
pub(crate) enum Outcome {
    /// All sinks hold it, by this driver.
    Ours(Publication),
    /// Another driver was first.
    Theirs,
}

/// A batch that all sinks hold.
pub(crate) struct Publication {
    /// What the main sink says.
    pub(crate) main: Published,
    /// What each sink says, by its place.
    all: Vec<(usize, Published)>,
}

impl Publication {
    /// What the decider says.
    pub(crate) fn decided(&self, sinks: &Sinks) -> Option<Published> {
        let place = sinks.roles.decider?;
        self.all.iter().find(|(sink, _)| *sink == place).map(|(_, published)| *published)
    }
}

/// Why a batch was not published in all sinks.
pub(crate) struct Failed {
    pub(crate) error: Error,
    /// Sinks that certainly hold nothing of it, by place: what was staged for them may go.
    nothing_in: Vec<usize>,
}

impl Sinks {
    /// Opens all sinks of a query. `context` is that of the main one.
    pub(crate) async fn open(
        definition: &QueryDefinition,
        context: SinkContext,
        facts: &Facts,
    ) -> Result<Sinks> {
        let further = definition.further_sinks.iter();
        let keeps: Vec<bool> = std::iter::once(&definition.sink)
            .chain(further.clone().map(|further| &further.sink))
            .map(|sink| sink.delivery().exactly_once())
            .collect();
        let roles = Roles::of(&keeps);
        let mut all = vec![OpenSink {
            name: None,
            description: definition.sink.description(),
            sink: definition.sink.open(context.clone()).await?,
        }];
        for (place, further) in further.enumerate() {
            let took_part = took_part(facts.last_commit.as_ref(), further.name());
            let context = SinkContext {
                schema: Arc::clone(&further.schema),
                last_commit: context.last_commit.filter(|_| took_part),
                follows: roles.followers.contains(&(place + 1)),
                effects: context.effects.of_site(further.name()),
                ..context.clone()
            };
            all.push(OpenSink {
                name: Some(further.name().to_owned()),
                description: further.sink.description(),
                sink: further
                    .sink
                    .open(context)
                    .await
                    .map_err(|error| of(further.name(), error))?,
            });
        }
        Ok(Sinks { all, roles })
    }

    /// The main sink.
    pub(crate) fn main(&self) -> Option<&Arc<dyn Sink>> {
        self.all.first().map(|open| &open.sink)
    }

    /// The further sinks: name and description.
    pub(crate) fn further(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all.iter().filter_map(|open| Some((open.name.as_deref()?, open.description.as_str())))
    }

    /// Those to purge.
    pub(crate) fn all(&self) -> Vec<Arc<dyn Sink>> {
        self.all.iter().map(|open| Arc::clone(&open.sink)).collect()
    }

    /// The open sink of a place.
    pub(crate) fn at(&self, place: usize) -> Result<&Arc<dyn Sink>> {
        let open = self.all.get(place).map(|open| &open.sink);
        open.ok_or_else(|| Error::internal(format!("there is no sink {place}")))
    }

    /// Whether the sinks by themselves tell enough of a batch to write its commit.
    pub(crate) fn tell_totals(&self) -> bool {
        self.all.len() == 1 && self.main().is_some_and(|sink| sink.tells_totals())
    }

    /// Whether what is staged for a sink is published only once the batch is decided.
    pub(crate) fn follows(&self, place: usize) -> bool {
        self.roles.followers.contains(&place)
    }

    /// The newest marks. Followers are asked first, so that none is ahead only because a batch was
    /// published in between.
    pub(crate) async fn marks(&self) -> Result<Marks> {
        let mut followers = Vec::new();
        for place in &self.roles.followers {
            let Some(open) = self.all.get(*place) else { continue };
            followers.push(Follower {
                name: open.name.clone().unwrap_or_default(),
                description: open.description.clone(),
                mark: open.sink.last_mark().await?,
            });
        }
        let decider = self.roles.decider.and_then(|place| self.all.get(place));
        // A sink that forgets may still tell what it has, for its own progress.
        let asked = decider.or(self.all.first());
        let mark = match asked {
            Some(open) => open.sink.last_mark().await?,
            None => None,
        };
        Ok(Marks {
            keeps: decider.is_some(),
            decider: decider.and_then(|open| open.name.clone()),
            mark,
            followers,
        })
    }

    /// Recovery of a batch that is not decided. What was staged for followers stays as it is: its
    /// driver may still decide the batch, and nothing of it is in sight.
    pub(crate) async fn conceal(&self, batch: BatchId) -> Result<()> {
        for place in self.roles.forgetful.iter().chain(&self.roles.decider) {
            self.at(*place)?.conceal(batch).await?;
        }
        Ok(())
    }

    /// Publishes a batch in all sinks, in their order.
    pub(crate) async fn publish(
        &self,
        attempt: &Attempt,
        mut outputs: Vec<Vec<StagedOutput>>,
        fence: &dyn Fence,
    ) -> Result<Outcome, Failed> {
        let order: Vec<usize> = self.roles.order().collect();
        let mut all = Vec::with_capacity(order.len());
        for (done, place) in order.iter().enumerate() {
            let outputs = outputs.get_mut(*place).map(std::mem::take).unwrap_or_default();
            let published = match self.at(*place) {
                Ok(sink) => sink.publish(attempt, outputs, fence).await,
                Err(error) => Err(error),
            };
            let published = published.map_err(|error| {
                let certain = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Fenced);
                let undecided = certain && !self.follows(*place);
                let left = order.get(done..).filter(|_| undecided).unwrap_or_default();
                Failed { error, nothing_in: left.to_vec() }
            })?;
            if !ours(attempt, &published) {
                return Ok(Outcome::Theirs);
            }
            all.push((*place, published));
        }
        let main = all.iter().find(|(place, _)| *place == 0).map(|(_, published)| *published);
        match main {
            Some(main) => Ok(Outcome::Ours(Publication { main, all })),
            None => {
                let error = Error::internal("the query has no main sink");
                Err(Failed { error, nothing_in: Vec::new() })
            }
        }
    }

    /// Finishes a batch that `published` decided: what its driver staged and did not come to
    /// publish is published in its name.
    pub(crate) async fn finish(
        &self,
        published: &Published,
        unpublished: Vec<Unpublished>,
        facts: &Facts,
        fence: &dyn Fence,
    ) -> Result<Publication> {
        let mark = published.mark;
        let place = self.roles.decider.unwrap_or_default();
        let mut all = vec![(place, *published)];
        for (place, open) in self.all.iter().enumerate().filter(|(it, _)| self.follows(*it)) {
            let name = open.name.as_deref().unwrap_or_default();
            let left = unpublished.iter().find(|it| it.name == name);
            let Some((left, (query, generation))) = left.zip(mark.query.zip(mark.generation))
            else {
                let held = facts.followers.iter().find(|it| it.name == name);
                let held = held.and_then(|it| it.mark);
                all.extend(held.filter(|it| it.mark.batch == mark.batch).map(|it| (place, it)));
                continue;
            };
            let outputs = serde_json::from_value(left.outputs.clone()).map_err(|error| {
                let text = format!(
                    "the staged output for {name} in a prepared record is of an unknown form; use \
                     a newer Onefold"
                );
                Error::corrupt(text).because(error)
            })?;
            let attempt = Attempt { query, batch: mark.batch, generation };
            let published = open.sink.publish(&attempt, outputs, fence).await;
            all.push((place, published.map_err(|error| of(name, error))?));
        }
        Ok(Publication { main: *published, all })
    }

    /// All marks of the batch are decided, and its commit is next.
    pub(crate) async fn settle(&self, publication: &Publication) -> Result<()> {
        for (place, published) in &publication.all {
            self.at(*place)?.settle(published).await?;
        }
        Ok(())
    }

    /// At a start with everything committed: what an earlier driver left of the newest batch.
    pub(crate) async fn settle_last(&self, facts: &Facts) -> Result<()> {
        if let Some(published) = facts.mark.filter(|_| facts.sink_keeps_marks)
            && let Some(place) = self.roles.decider
        {
            self.at(place)?.settle(&published).await?;
        }
        for place in &self.roles.followers {
            let Some(open) = self.all.get(*place) else { continue };
            let held = facts.followers.iter().find(|it| Some(&it.name) == open.name.as_ref());
            if let Some(published) = held.and_then(|it| it.mark) {
                open.sink.settle(&published).await?;
            }
        }
        Ok(())
    }

    /// Throws away what an attempt that never came to publish staged.
    pub(crate) async fn discard(&self, attempt: &Attempt) {
        let all: Vec<usize> = (0..self.all.len()).collect();
        self.discard_in(attempt, &all).await;
    }

    /// Throws away what is certainly not published.
    pub(crate) async fn give_up(&self, attempt: &Attempt, failed: &Failed) {
        self.discard_in(attempt, &failed.nothing_in).await;
    }

    async fn discard_in(&self, attempt: &Attempt, places: &[usize]) {
        for open in places.iter().filter_map(|place| self.all.get(*place)) {
            if let Err(error) = open.sink.discard(attempt).await {
                tracing::warn!(
                    "what batch {} staged in {} is left behind until the next start: {}",
                    attempt.batch,
                    open.description,
                    error.chain()
                );
            }
        }
    }
}

fn ours(attempt: &Attempt, published: &Published) -> bool {
    published.mark.query == Some(attempt.query)
        && published.mark.generation == Some(attempt.generation)
}

fn of(name: &str, error: Error) -> Error {
    let failed = format!("the query's sink of {name} failed");
    // What the sink advises is meant for a main one.
    let text = match error.kind() {
        ErrorKind::Corrupt => format!(
            "{failed}: its place is an option of the query (onefold.deadLetters.path, \
             onefold.lateRows.path), not --sink of a command; a new, empty one will do once the \
             query was started without these options"
        ),
        _ => failed,
    };
    Error::new(error.kind(), text).because(error)
}
