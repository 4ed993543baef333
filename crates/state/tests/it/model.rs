//! Random batches against a plain map, through aborts, crashes, restarts, other numbers of
//! partitions and either provider.

use crate::specs::operators;
use crate::world::{Model, Opened, Row, config, contents};
use onefold_state::{Provider, StateConfig, StateRef, StateStore, key_group};
use onefold_testkit::MemoryStore;
use onefold_types::BatchId;
use proptest::prelude::*;
use std::ops::Bound;
use std::sync::Arc;

#[derive(Debug, Clone)]
enum Op {
    Put(Row, Vec<u8>),
    Remove(Row),
    Get(Row),
    /// Scans all from a key on, so many rows at a time, removing every second row it is given and
    /// putting one in front of it and one behind.
    Scan(u8, Vec<u8>, usize),
    Count(Row),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Applied,
    Dropped,
    /// The process died after the batch was prepared, and nobody published it.
    PreparedOnly,
    /// The process died after the commit.
    CommittedOnly,
}

#[derive(Debug, Clone)]
enum Step {
    Batch(Vec<Op>, End),
    Restart(u32, bool),
    FinishSnapshot,
    /// Only so many of the newest versions stay readable.
    Purge(usize),
    /// Opens an older version beside and compares.
    ReadOlder(usize),
}

fn row() -> impl Strategy<Value = Row> {
    let place = prop_oneof![Just((0, 0)), Just((0, 1)), Just((1, 0))];
    (place, 0..6_u8, "[a-c]{0,3}").prop_map(|((operator, family), user, rest)| {
        (operator, family, key_group(&[user]), format!("{user}{rest}").into_bytes())
    })
}

fn op() -> impl Strategy<Value = Op> {
    let value = prop::collection::vec(any::<u8>(), 0..12);
    prop_oneof![
        4 => (row(), value).prop_map(|(row, value)| Op::Put(row, value)),
        2 => row().prop_map(Op::Remove),
        2 => row().prop_map(Op::Get),
        1 => (0..6_u8, "[a-c]{0,2}", 1..5_usize).prop_map(|(user, from, limit)| {
            Op::Scan(user, format!("{user}{from}").into_bytes(), limit)
        }),
        1 => row().prop_map(Op::Count),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        6 => Just(End::Applied),
        1 => Just(End::Dropped),
        1 => Just(End::PreparedOnly),
        1 => Just(End::CommittedOnly),
    ];
    prop_oneof![
        8 => (prop::collection::vec(op(), 0..25), end).prop_map(|(ops, end)| Step::Batch(ops, end)),
        2 => (1..9_u32, any::<bool>()).prop_map(|(count, rocks)| Step::Restart(count, rocks)),
        1 => Just(Step::FinishSnapshot),
        1 => (1..4_usize).prop_map(Step::Purge),
        1 => (0..4_usize).prop_map(Step::ReadOlder),
    ]
}

struct Run {
    config: StateConfig,
    state: StateStore,
    /// Version and content, of all versions that must be readable.
    kept: Vec<(StateRef, Model)>,
    model: Model,
    _folder: tempfile::TempDir,
}

impl Run {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(Arc::new(MemoryStore::default()), 1);
        config.local_dir = Some(folder.path().join("state"));
        let state = StateStore::open(config.clone(), None).await.unwrap();
        Run { config, state, kept: Vec::new(), model: Model::new(), _folder: folder }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Batch(ops, end) => self.batch(ops, end).await,
            Step::Restart(partitions, rocks) => {
                self.config.partitions = partitions;
                let rocks = rocks && cfg!(feature = "rocksdb");
                self.config.provider = if rocks { Provider::RocksDb } else { Provider::Memory };
                self.restart().await;
            }
            Step::FinishSnapshot => self.state.finish_snapshot().await,
            Step::Purge(keep) => {
                let drop = self.kept.len().saturating_sub(keep);
                self.kept.drain(..drop);
                let refs: Vec<_> = self.kept.iter().map(|(kept, _)| kept.clone()).collect();
                self.state.purge(&refs).await.unwrap();
            }
            Step::ReadOlder(back) => {
                if let Some((at, model)) = self.kept.iter().rev().nth(back) {
                    let mut config = self.config.clone();
                    config.provider = Provider::Memory;
                    let older = StateStore::open(config, Some(at)).await.unwrap();
                    assert_eq!(&contents(&older, &operators()).unwrap(), model);
                }
            }
        }
    }

    async fn restart(&mut self) {
        // A local database can be open only once.
        self.state = StateStore::in_memory(operators(), 1).unwrap();
        self.config.generation = self.config.generation.next();
        let at = self.kept.last().map(|(at, _)| at);
        self.state = StateStore::open(self.config.clone(), at).await.unwrap();
        assert_eq!(contents(&self.state, &operators()).unwrap(), self.model);
    }

    async fn batch(&mut self, ops: Vec<Op>, end: End) {
        let batch = self.state.begin(BatchId(self.state.version())).unwrap();
        let mut opened = Opened::new(&batch, operators());
        let mut model = self.model.clone();
        for op in ops {
            carry_out(op, &mut opened, &mut model);
        }
        drop(opened);
        if end == End::Dropped {
            return;
        }
        let at = self.state.prepare(&batch).await.unwrap();
        if end == End::Applied {
            self.state.apply(&batch).await.unwrap();
        }
        drop(batch);
        if end != End::PreparedOnly {
            self.kept.push((at, model.clone()));
            self.model = model;
        }
        if matches!(end, End::PreparedOnly | End::CommittedOnly) {
            self.restart().await;
        }
        let rows: u64 = self.state.report().iter().map(|it| it.rows).sum();
        assert_eq!(rows, self.model.len() as u64);
    }
}

fn carry_out(op: Op, opened: &mut Opened<'_>, model: &mut Model) {
    match op {
        Op::Put(row, value) => {
            opened.write(&row, Some(&value)).unwrap();
            model.insert(row, value);
        }
        Op::Remove(row) => {
            opened.write(&row, None).unwrap();
            model.remove(&row);
        }
        Op::Get(row) => {
            let (operator, family, group, key) = &row;
            let twice = [(*group, &**key), (*group, b"never there"), (*group, &**key)];
            let found = opened.at(*operator, *group).get(*family, &twice).unwrap();
            let expected = model.get(&row).map(|value| value.clone().into_boxed_slice());
            assert_eq!(found, [expected.clone(), None, expected]);
        }
        Op::Scan(user, from, limit) => scan(user, &from, limit, opened, model),
        Op::Count((operator, family, group, _)) => {
            let state = opened.at(operator, group);
            let count = |model: &Model, of: &dyn Fn(&Row) -> bool| {
                model.keys().filter(|row| row.0 == operator && row.1 == family && of(row)).count()
            };
            let groups = state.groups();
            let all = count(model, &|row| groups.contains(&u32::from(row.2)));
            assert_eq!(state.rows(family), all as u64);
            assert_eq!(state.rows_in(family, group), count(model, &|row| row.2 == group) as u64);
        }
    }
}

fn scan(user: u8, from: &[u8], limit: usize, opened: &mut Opened<'_>, model: &mut Model) {
    let group = key_group(&[user]);
    let mut from = Bound::Included(from.to_vec());
    for _ in 0..50 {
        let bound = from.as_ref().map(|key| &**key);
        let rows = opened.at(0, group).scan(1, group, bound, Bound::Unbounded, limit).unwrap();
        let row = |key: Vec<u8>| (0, 1, group, key);
        let range = (from.clone().map(row), Bound::Included((0, 1, group, vec![255])));
        let expected: Vec<_> = model.range(range).take(limit).collect();
        let found: Vec<_> = rows.iter().map(|row| (row.key.to_vec(), row.value.to_vec())).collect();
        let plain = |(row, value): &(&Row, &Vec<u8>)| (row.3.clone(), (*value).clone());
        assert_eq!(found, expected.iter().map(plain).collect::<Vec<_>>());
        let Some(last) = rows.last() else { return };
        // What is written while scanning is seen from where the scan has come to.
        opened.write(&row(last.key.to_vec()), None).unwrap();
        model.remove(&row(last.key.to_vec()));
        if rows.len() == 2 {
            let mut behind = last.key.to_vec();
            behind.truncate(2);
            behind.push(b'z');
            opened.write(&row(behind.clone()), Some(b"new")).unwrap();
            model.insert(row(behind), b"new".to_vec());
        }
        if rows.len() < limit {
            return;
        }
        from = Bound::Excluded(last.key.to_vec());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_state_is_what_a_plain_map_is(steps in prop::collection::vec(step(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut run = Run::new().await;
            for step in steps {
                run.step(step).await;
            }
            run.restart().await;
        });
    }
}
