//! A driver of the model: one atomic act at a time, by the real rules.

use super::world::{Bug, CommitFile, DataFile, IntentFile, MarkFile, RETAINED, Sight, World};
use onefold_protocol::record::{Commit, Intent, IntentVersion};
use onefold_protocol::recovery::{Facts, Next, decide};
use onefold_protocol::retention;
use onefold_types::{BatchId, ContentHash, Generation, Mark, Offset, Published, QueryId, Totals};
use std::collections::BTreeMap;
use uuid::Uuid;

const QUERY: QueryId = QueryId(Uuid::from_u128(1));

/// Whether the reply of a create arrives. A lost one makes the store try again, and then it finds
/// its own record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Known,
    Lost,
}

/// How a driver ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nothing is left to do.
    Done,
    /// A newer driver runs.
    Fenced,
    /// The facts do not fit.
    Stopped(String),
}

/// The act that comes next. Looking and acting are two acts, so that others may come between.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum At {
    ListGenerations,
    CreateGeneration(u64),
    GatherLogs,
    GatherMark(BTreeMap<u64, IntentFile>, BTreeMap<u64, CommitFile>),
    SettleLast(u64),
    ReleaseAgain(u64),
    IntentFence,
    IntentCreate,
    ConcealLook,
    ConcealList,
    ConcealRename(Vec<(u64, u64)>),
    ConcealLookAgain,
    ConcealReveal,
    Stage,
    PublishFence,
    PublishLook,
    Reveal,
    Stat,
    CreateMark,
    Discard,
    FenceAgain,
    SettleReveal,
    SettleList,
    SettleDelete(Vec<(u64, u64)>),
    CommitFence,
    CommitCreate,
    Release,
    Purge,
}

/// A living driver.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Driver {
    nonce: u64,
    /// 0 before it has one.
    pub(super) generation: u64,
    pub(super) at: At,
    /// The generation that this process held before it tried again.
    before: Option<u64>,
    batch: u64,
    start: u64,
    end: u64,
    /// Batches up to this one may have files of other drivers.
    shared_to: Option<u64>,
}

/// Whose record has the name after a create.
enum Named {
    Mine,
    Theirs,
}

/// What follows an act: the next one, or the end.
type After = Result<At, Ended>;

impl Driver {
    pub(super) fn new(nonce: u64) -> Self {
        Driver {
            nonce,
            generation: 0,
            at: At::ListGenerations,
            before: None,
            batch: 0,
            start: 0,
            end: 0,
            shared_to: None,
        }
    }

    /// Whether the next act is a create, whose reply may be lost.
    pub(super) fn creates(&self) -> bool {
        matches!(
            self.at,
            At::CreateGeneration(_) | At::IntentCreate | At::CreateMark | At::CommitCreate
        )
    }

    /// Takes one act.
    pub(super) fn act(
        &mut self,
        world: &mut World,
        bug: Option<Bug>,
        rows: u64,
        reply: Reply,
    ) -> Option<Ended> {
        let mut act = Act { driver: self, world, bug, rows, reply };
        match act.take() {
            Ok(at) => {
                self.at = at;
                None
            }
            Err(ended) => Some(ended),
        }
    }

    /// Whether it may just have taken a file out of sight.
    pub(super) fn conceals(&self) -> bool {
        matches!(self.at, At::ConcealLookAgain | At::ConcealReveal)
    }

    fn name(&self, bug: Option<Bug>) -> (u64, u64) {
        let named = bug != Some(Bug::StagedNamesWithoutGeneration);
        (self.batch, if named { self.generation } else { 0 })
    }
}

/// One act under way.
struct Act<'a> {
    driver: &'a mut Driver,
    world: &'a mut World,
    bug: Option<Bug>,
    rows: u64,
    reply: Reply,
}

impl Act<'_> {
    fn take(&mut self) -> After {
        match self.driver.at.clone() {
            At::ListGenerations => self.list_generations(),
            At::CreateGeneration(number) => self.create_generation(number),
            At::GatherLogs => Ok(self.gather_logs()),
            At::GatherMark(intents, commits) => self.decided(&intents, &commits),
            At::SettleLast(until) => {
                // An overtaken driver may have hidden the last batch and died.
                if self.bug != Some(Bug::NoSettleAtStart)
                    && let Some((batch, mark)) = self.world.marks.last_key_value()
                    && *batch < self.driver.batch
                {
                    let file = mark.file;
                    self.move_file(file, Sight::Concealed, Sight::Revealed);
                }
                Ok(At::ReleaseAgain(until))
            }
            At::ReleaseAgain(until) => {
                self.world.released = self.world.released.max(until);
                self.choose()
            }
            At::IntentFence => self.fenced(At::IntentCreate),
            At::IntentCreate => self.create_intent(),
            At::ConcealLook
            | At::ConcealList
            | At::ConcealRename(_)
            | At::ConcealLookAgain
            | At::ConcealReveal => self.conceal(),
            At::Stage => Ok(self.stage()),
            At::PublishFence => self.publish_fence(),
            At::PublishLook => Ok(match self.world.marks.get(&self.driver.batch) {
                Some(_) => At::Discard,
                None => At::Reveal,
            }),
            At::Reveal => self.reveal(),
            At::Stat => self.stat(),
            At::CreateMark => Ok(self.create_mark()),
            At::Discard => Ok(self.discard()),
            At::FenceAgain => self.fenced(At::GatherLogs),
            At::SettleReveal | At::SettleList | At::SettleDelete(_) => self.settle(),
            At::CommitFence => self.commit_fence(),
            At::CommitCreate => self.create_commit(),
            At::Release => {
                self.world.released = self.world.released.max(self.driver.end);
                Ok(At::Purge)
            }
            At::Purge => self.purge(),
        }
    }

    fn list_generations(&self) -> After {
        let newest = self.world.newest_generation();
        match self.driver.before {
            Some(before) if newest > before => Err(Ended::Fenced),
            _ => Ok(At::CreateGeneration(newest + 1)),
        }
    }

    fn create_generation(&mut self, number: u64) -> After {
        let (nonce, place) = (self.driver.nonce, number as usize - 1);
        let found = self.world.generations.get(place).copied();
        let named = self.named(found.map(|found| found == nonce));
        if found.is_none() {
            self.world.generations.push(nonce);
        } else if self.bug == Some(Bug::CreateOverwrites) {
            self.world.generations[place] = nonce;
        }
        match named {
            Named::Mine => {
                self.driver.generation = number;
                Ok(At::GatherLogs)
            }
            Named::Theirs => Ok(At::ListGenerations),
        }
    }

    /// What a create tells: `found` says whether the name was taken, and if so whether by bytes
    /// equal to ours.
    fn named(&self, found: Option<bool>) -> Named {
        let found = if self.reply == Reply::Lost && found.is_none() { Some(true) } else { found };
        match (found, self.bug) {
            (None | Some(_), Some(Bug::CreateOverwrites)) | (None, _) => Named::Mine,
            (Some(_), Some(Bug::ExistsIsSuccess)) => Named::Mine,
            (Some(_), Some(Bug::ExistsIsFailure)) => Named::Theirs,
            (Some(true), _) => Named::Mine,
            (Some(false), _) => Named::Theirs,
        }
    }

    fn gather_logs(&mut self) -> At {
        if self.driver.shared_to.is_none() {
            self.driver.shared_to = self.world.intents.last_key_value().map(|(batch, _)| *batch);
        }
        At::GatherMark(self.world.intents.clone(), self.world.commits.clone())
    }

    fn decided(
        &mut self,
        intents: &BTreeMap<u64, IntentFile>,
        commits: &BTreeMap<u64, CommitFile>,
    ) -> After {
        let newest = intents.last_key_value().map(|(_, intent)| *intent);
        let next = match decide(&facts(self.world, intents, commits)) {
            Next::AdoptCommit { batch, .. } if self.bug == Some(Bug::PublishWithoutReadingMark) => {
                Next::RunAgain { batch }
            }
            next => next,
        };
        match next {
            Next::Plan { batch } => {
                self.driver.batch = batch.0;
                self.driver.start = newest.map_or(0, |intent| intent.end);
                Ok(At::SettleLast(self.driver.start))
            }
            Next::RunAgain { batch } => {
                self.again(batch.0, newest);
                if self.bug == Some(Bug::RangeChosenAgain) {
                    self.driver.end = self.wanted_end();
                }
                Ok(At::ConcealLook)
            }
            Next::AdoptCommit { batch, .. } => {
                self.again(batch.0, newest);
                Ok(self.settling())
            }
            Next::Stop(reason) => Err(Ended::Stopped(reason.to_string())),
        }
    }

    fn again(&mut self, batch: u64, intent: Option<IntentFile>) {
        self.driver.batch = batch;
        (self.driver.start, self.driver.end) = intent.map_or((0, 0), |it| (it.start, it.end));
    }

    /// The range that this driver would choose: drivers differ, so that a range chosen twice shows.
    fn wanted_end(&self) -> u64 {
        self.rows.min(self.driver.start + 1 + self.driver.generation % 2)
    }

    fn choose(&mut self) -> After {
        if self.driver.start == self.rows {
            return Err(Ended::Done);
        }
        self.driver.end = self.wanted_end();
        match self.bug {
            Some(Bug::PublishBeforeIntent) => Ok(At::Stage),
            _ => Ok(At::IntentFence),
        }
    }

    fn fenced(&self, next: At) -> After {
        let fenced = self.world.newest_generation() > self.driver.generation;
        if fenced && self.bug != Some(Bug::NoFence) { Err(Ended::Fenced) } else { Ok(next) }
    }

    fn create_intent(&mut self) -> After {
        let Driver { batch, generation, nonce, start, end, .. } = *self.driver;
        let ours = IntentFile { generation, nonce, start, end };
        let found = self.world.intents.get(&batch).copied();
        let named = self.named(found.map(|found| found == ours));
        if found.is_none() || self.bug == Some(Bug::CreateOverwrites) {
            self.world.intents.insert(batch, ours);
            self.world.step(generation, "intent", batch);
        }
        match (named, self.bug) {
            (Named::Mine, Some(Bug::PublishBeforeIntent)) => Ok(self.settling()),
            (Named::Mine, _) => Ok(At::Stage),
            (Named::Theirs, _) => Ok(At::FenceAgain),
        }
    }

    fn shared(&self) -> bool {
        self.driver.shared_to.is_some_and(|shared| self.driver.batch <= shared)
    }

    fn share(&mut self) {
        self.driver.shared_to = self.driver.shared_to.max(Some(self.driver.batch));
    }

    /// Recovery of a batch that is not published: what older drivers left goes out of sight.
    fn conceal(&mut self) -> After {
        let Driver { batch, generation, .. } = *self.driver;
        let marked = self.world.marks.contains_key(&batch);
        match self.driver.at.clone() {
            At::ConcealLook => {
                self.share();
                Ok(if marked { At::Stage } else { At::ConcealList })
            }
            At::ConcealList => {
                let found = self.world.files.iter().filter(|((of, by), file)| {
                    *of == batch && *by < generation && file.sight == Sight::Revealed
                });
                let found: Vec<(u64, u64)> = found.map(|(name, _)| *name).collect();
                Ok(if found.is_empty() { At::Stage } else { At::ConcealRename(found) })
            }
            At::ConcealRename(names) => {
                for name in names {
                    self.move_file(name, Sight::Revealed, Sight::Concealed);
                }
                Ok(At::ConcealLookAgain)
            }
            At::ConcealLookAgain => Ok(if marked { At::ConcealReveal } else { At::Stage }),
            _ => self.reveal_winner(At::Stage),
        }
    }

    fn move_file(&mut self, name: (u64, u64), from: Sight, to: Sight) {
        if let Some(file) = self.world.files.get_mut(&name)
            && file.sight == from
        {
            file.sight = to;
        }
    }

    /// Brings the winner's file back into sight. A newer driver may have finished the batch
    /// meanwhile, but it keeps the winner's file.
    fn reveal_winner(&mut self, next: At) -> After {
        let Some(mark) = self.world.marks.get(&self.driver.batch).copied() else {
            return Err(Ended::Stopped("the mark is gone".to_owned()));
        };
        self.move_file(mark.file, Sight::Concealed, Sight::Revealed);
        match self.world.files.get(&mark.file) {
            Some(file) if file.sight == Sight::Revealed => Ok(next),
            _ => Err(Ended::Stopped(format!("the file {:?} of the mark is gone", mark.file))),
        }
    }

    fn stage(&mut self) -> At {
        let Driver { batch, generation, start, end, .. } = *self.driver;
        let name = self.driver.name(self.bug);
        self.world.files.insert(name, DataFile { sight: Sight::Staged, start, end });
        if self.bug == Some(Bug::CommitBeforePublish) {
            self.world.commits.entry(batch).or_insert(CommitFile { generation, rows: end - start });
        }
        At::PublishFence
    }

    fn publish_fence(&mut self) -> After {
        let next = if self.shared() { At::PublishLook } else { At::Reveal };
        let fence = self.fenced(next);
        if fence.is_err() {
            self.remove_own();
        }
        fence
    }

    fn remove_own(&mut self) {
        let name = self.driver.name(self.bug);
        if self.world.files.get(&name).is_some_and(|file| file.sight != Sight::Concealed) {
            self.world.files.remove(&name);
        }
    }

    fn reveal(&mut self) -> After {
        let name = self.driver.name(self.bug);
        let staged = self.world.files.get(&name).is_some_and(|it| it.sight == Sight::Staged);
        if staged {
            self.world.step(self.driver.generation, "publish", self.driver.batch);
        }
        self.move_file(name, Sight::Staged, Sight::Revealed);
        self.stat()
    }

    /// Own files that are gone are the work of a newer driver; else the driver tries again.
    fn stat(&mut self) -> After {
        let name = self.driver.name(self.bug);
        let there = self.world.files.get(&name).is_some_and(|it| it.sight == Sight::Revealed);
        if there {
            let revealed = self.driver.at == At::Reveal;
            return Ok(if revealed { At::Stat } else { At::CreateMark });
        }
        if self.fenced(At::FenceAgain).is_err() {
            self.remove_own();
            return Err(Ended::Fenced);
        }
        self.driver.before = Some(self.driver.generation);
        self.driver.shared_to = None;
        Ok(At::ListGenerations)
    }

    fn create_mark(&mut self) -> At {
        let Driver { batch, generation, start, end, .. } = *self.driver;
        let ours = MarkFile { generation, file: self.driver.name(self.bug), start, end };
        let found = self.world.marks.get(&batch).copied();
        let named = self.named(found.map(|found| found.generation == generation));
        if found.is_none() || self.bug == Some(Bug::CreateOverwrites) {
            self.world.marks.insert(batch, ours);
            self.world.step(generation, "publish", batch);
        }
        match (named, self.bug) {
            (Named::Mine, Some(Bug::PublishBeforeIntent)) => At::IntentCreate,
            (Named::Mine, _) | (_, Some(Bug::PublishWithoutReadingMark)) => self.settling(),
            (Named::Theirs, _) => At::Discard,
        }
    }

    /// Another driver was first.
    fn discard(&mut self) -> At {
        self.remove_own();
        self.share();
        At::FenceAgain
    }

    fn settling(&self) -> At {
        if self.shared() && self.bug != Some(Bug::NoSettle) {
            At::SettleReveal
        } else {
            At::CommitFence
        }
    }

    /// The winner's file is brought into sight, then what others left of the batch is destroyed.
    fn settle(&mut self) -> After {
        let batch = self.driver.batch;
        match self.driver.at.clone() {
            At::SettleReveal => self.reveal_winner(At::SettleList),
            At::SettleDelete(names) => {
                for name in names {
                    self.world.files.remove(&name);
                }
                Ok(At::SettleList)
            }
            _ => {
                let won = self.world.marks.get(&batch).map(|mark| mark.file);
                let lost = self.world.files.iter().filter(|((of, by), file)| {
                    let older = *of < batch && file.sight != Sight::Revealed;
                    older || (*of == batch && Some((*of, *by)) != won)
                });
                let lost: Vec<(u64, u64)> = lost.map(|(name, _)| *name).collect();
                Ok(if lost.is_empty() { At::CommitFence } else { At::SettleDelete(lost) })
            }
        }
    }

    fn commit_fence(&mut self) -> After {
        if self.bug == Some(Bug::ReleaseBeforeCommit) {
            self.world.released = self.world.released.max(self.driver.end);
        }
        self.fenced(At::CommitCreate)
    }

    fn create_commit(&mut self) -> After {
        let Driver { batch, generation, start, end, .. } = *self.driver;
        let by = self.world.marks.get(&batch).map_or(generation, |mark| mark.generation);
        let ours = CommitFile { generation: by, rows: end - start };
        let found = self.world.commits.get(&batch).copied();
        let named = self.named(found.map(|found| found == ours));
        if found.is_none() || self.bug == Some(Bug::CreateOverwrites) {
            self.world.commits.insert(batch, ours);
            self.world.step(generation, "commit", batch);
        }
        let same_rows = found.is_none_or(|found| found.rows == ours.rows);
        match named {
            Named::Theirs if !same_rows => Err(Ended::Stopped("other rows committed".to_owned())),
            _ => Ok(At::Release),
        }
    }

    /// One file at a time, oldest first, a commit before its intent.
    fn purge(&mut self) -> After {
        let committed = BatchId(self.driver.batch);
        let keep_from = match self.bug {
            Some(Bug::PurgeTooMuch) => committed.next(),
            _ => retention::keep_from(committed, RETAINED),
        };
        let (commits, intents) = (&mut self.world.commits, &mut self.world.intents);
        let oldest = commits.keys().chain(intents.keys()).copied().min();
        match oldest.filter(|oldest| *oldest < keep_from.0) {
            Some(oldest) => {
                if commits.remove(&oldest).is_none() {
                    intents.remove(&oldest);
                }
                Ok(At::Purge)
            }
            None => {
                self.driver.batch += 1;
                self.driver.start = self.driver.end;
                self.choose()
            }
        }
    }
}

/// The real facts of the model's world, for the real decision.
fn facts(
    world: &World,
    intents: &BTreeMap<u64, IntentFile>,
    commits: &BTreeMap<u64, CommitFile>,
) -> Facts {
    let mut newest = intents.values().rev().map(intent);
    let mark = world.marks.last_key_value().map(|(batch, mark)| Published {
        mark: Mark {
            query: Some(QUERY),
            batch: BatchId(*batch),
            generation: Some(Generation(mark.generation)),
        },
        totals: Some(Totals { rows: mark.end - mark.start, hash: ContentHash(0) }),
    });
    let mut intent_ids = intents.keys().copied().map(BatchId).collect();
    let mut commit_ids = commits.keys().copied().map(BatchId).collect();
    retention::take_left_behind(&mut intent_ids, &mut commit_ids);
    Facts {
        query: Some(QUERY),
        metadata_found: true,
        intent_ids,
        commit_ids,
        last_intent: newest.next(),
        intent_before: newest.next(),
        last_commit: commits.last_key_value().map(|(_, commit)| Commit {
            version: 1,
            next_batch_watermark_ms: 0,
            state_unique_ids: None,
            generation: Some(Generation(commit.generation)),
            totals: Some(Totals { rows: commit.rows, hash: ContentHash(0) }),
            watermarks: Default::default(),
            sinks: Default::default(),
        }),
        sink_keeps_marks: true,
        mark,
        ..Facts::default()
    }
}

fn intent(file: &IntentFile) -> Intent {
    Intent {
        version: IntentVersion::V1,
        batch_watermark_ms: 0,
        batch_timestamp_ms: 0,
        conf: BTreeMap::new(),
        sources: vec![("0".to_owned(), Some(Offset::new(file.end.to_string())))],
        notes: BTreeMap::new(),
        query: Some(QUERY),
        generation: Some(Generation(file.generation)),
        nonce: None,
        source_metadata_info: None,
        control_batch_info: None,
    }
}
