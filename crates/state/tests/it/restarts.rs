//! Restarts: snapshots, purge, changed queries.

use crate::specs::{family, operators};
use crate::world::{Model, World, contents};
use arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::row::{RowConverter, SortField};
use onefold_state::{Access, BatchState, Change, OperatorSpec, StateStore};
use onefold_types::{BatchId, ErrorKind};
use std::sync::Arc;

#[tokio::test]
async fn files_stay_few_while_batches_go_on() {
    let mut world = World::new().await;
    for _ in 0..20 {
        world.batches(5).await;
        world.state.finish_snapshot().await;
        let keep = world.refs[world.refs.len() - 2..].to_vec();
        world.state.purge(&keep).await.unwrap();
    }
    world.batches(1).await;
    let files = world.store.paths();
    assert!(files.len() < 25, "{files:#?}");
    world.check();
    world.restart().await.unwrap();
    world.check();
    assert!(world.refs.last().unwrap().bytes_to_read() < 40_000);
}

#[tokio::test]
async fn rows_removed_in_a_snapshot_of_part_of_the_state_stay_removed() {
    let mut world = World::new().await;
    let row = |number: u8| (0, usize::from(number % 2), number, vec![number; 50]);
    let all: Vec<_> = (0..=255).map(|number| (row(number), Some(&[7_u8; 40][..]))).collect();
    world.batch(&all).await;
    world.batches(2).await;
    world.state.finish_snapshot().await;
    for number in [3, 4, 5] {
        world.batch(&[(row(number), None)]).await;
    }
    world.state.finish_snapshot().await;
    world.batch(&[]).await;
    let named = |part: &str| {
        let paths = world.refs.last().unwrap().paths();
        paths.iter().filter(|path| path.contains(part)).count()
    };
    assert_eq!((named("snapshots/0-3-"), named("snapshots/3-6-")), (1, 1));
    world.restart().await.unwrap();
    world.check();
}

#[tokio::test]
async fn purge_leaves_what_the_next_version_will_name() {
    let mut world = World::new().await;
    world.batches(3).await;
    let newest = world.refs.last().unwrap().clone();
    world.state.finish_snapshot().await;
    world.state.purge(&[newest]).await.unwrap();
    world.batches(1).await;
    let files = world.store.paths();
    for path in world.refs.last().unwrap().paths() {
        assert!(files.contains(&path), "{path} is gone");
    }
}

#[tokio::test]
async fn a_batch_that_writes_nothing_makes_no_file_and_still_counts() {
    let mut world = World::new().await;
    world.batches(1).await;
    let files = world.store.paths();
    world.batch(&[]).await;
    world.batch(&[]).await;
    assert_eq!(world.store.paths(), files);
    assert_eq!(world.refs.last().unwrap().version(), 3);
    world.restart().await.unwrap();
    assert_eq!(world.state.version(), 3);
    world.check();
    world.batches(2).await;
    world.restart().await.unwrap();
    world.check();
}

#[tokio::test]
async fn preparing_again_gives_the_same_answer_and_nothing_is_written_after_it() {
    let mut world = World::new().await;
    world.batches(1).await;
    let batch = world.state.begin(BatchId(1)).unwrap();
    batch.open(0, 0).unwrap().put(0, 1, b"k", b"v").unwrap();
    let first = world.state.prepare(&batch).await.unwrap();
    let files = world.store.paths();
    assert_eq!(world.state.prepare(&batch).await.unwrap(), first);
    assert_eq!(world.store.paths(), files);
    assert!(batch.open(0, 1).unwrap_err().to_string().contains("prepared"));
    let text = serde_json::to_string(&first).unwrap();
    assert_eq!(serde_json::from_str::<onefold_state::StateRef>(&text).unwrap(), first);
}

#[tokio::test]
async fn what_a_driver_left_of_an_undecided_batch_stays_until_that_batch_is_decided() {
    let mut world = World::new().await;
    world.batches(1).await;
    let batch = world.state.begin(BatchId(1)).unwrap();
    batch.open(0, 0).unwrap().put(0, 1, b"k", b"of the driver before").unwrap();
    let undecided = world.state.prepare(&batch).await.unwrap();
    drop(batch);
    world.restart().await.unwrap();
    let refs = world.refs.clone();
    world.state.purge(&refs).await.unwrap();
    // It may still have been published: then the next start adopts it.
    let adopted = StateStore::open(world.config.clone(), Some(&undecided)).await.unwrap();
    assert_eq!(adopted.version(), 2);
    world.batches(1).await;
    let refs = world.refs.clone();
    world.state.purge(&refs).await.unwrap();
    assert!(StateStore::open(world.config.clone(), Some(&undecided)).await.is_err());
    world.restart().await.unwrap();
    world.check();
}

/// An operator whose values have these columns.
fn counting(value: Vec<Field>) -> Vec<OperatorSpec> {
    let mut family = family("counts", Access::Point);
    family.value = Arc::new(Schema::new(value));
    let (kind, label) = ("stateStoreSave".into(), "count by user".into());
    vec![OperatorSpec { id: 0, kind, label, families: vec![family], single: false }]
}

fn encode(columns: Vec<ArrayRef>) -> Vec<u8> {
    let fields = columns.iter().map(|it| SortField::new(it.data_type().clone())).collect();
    let converter = RowConverter::new(fields).unwrap();
    converter.convert_columns(&columns).unwrap().row(0).as_ref().to_vec()
}

#[tokio::test]
async fn a_compatible_change_reads_old_rows_as_new_ones_wherever_they_lie() {
    let narrow = counting(vec![Field::new("n", DataType::Int32, false)]);
    let label = Field::new("name", DataType::Utf8, true);
    let wide = counting(vec![label, Field::new("n", DataType::Int64, true)]);
    let mut world = World::new().await;
    world.config.operators = narrow;
    world.state = StateStore::open(world.config.clone(), None).await.unwrap();
    let row = |key: &str| (0, 0, 9, key.as_bytes().to_vec());
    let int = |n| encode(vec![Arc::new(Int32Array::from(vec![n]))]);
    for number in 0..5 {
        world.batch(&[(row(&format!("u{number}")), Some(&*int(number)))]).await;
        world.state.finish_snapshot().await;
    }
    let full = |name: Option<&str>, n| {
        encode(vec![Arc::new(StringArray::from(vec![name])), Arc::new(Int64Array::from(vec![n]))])
    };
    world.config.operators = wide.clone();
    world.restart().await.unwrap();
    world.model = (0..5)
        .map(|number| (row(&format!("u{number}")), full(None, i64::from(number))))
        .collect::<Model>();
    world.check();
    // Old and new rows together, then merged, then read by one more start.
    for number in 5..9 {
        let value = full(Some("new"), 1 << 40);
        world.batch(&[(row(&format!("u{number}")), Some(&*value))]).await;
        world.state.finish_snapshot().await;
    }
    world.restart().await.unwrap();
    world.check();
    // Back to fewer columns is refused, unless the state may go.
    world.config.operators = counting(vec![Field::new("n", DataType::Int64, true)]);
    let error = world.restart().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("'name'"), "{error}");
    world.config.discard = vec!["count by user".into()];
    world.restart().await.unwrap();
    world.model.clear();
    world.check();
}

#[tokio::test]
async fn an_operator_that_was_gone_comes_back_empty() {
    let mut world = World::new().await;
    world.batches(4).await;
    world.state.finish_snapshot().await;
    world.batches(1).await;
    world.config.operators = vec![operators().remove(1)];
    world.model.retain(|row, _| row.0 == 1);
    world.restart().await.unwrap();
    world.check();
    world.batch(&[((1, 0, 200, b"total".to_vec()), Some(b"alone"))]).await;
    world.config.operators = operators();
    world.restart().await.unwrap();
    world.check();
    world.batches(4).await;
    world.state.finish_snapshot().await;
    world.batches(1).await;
    world.restart().await.unwrap();
    world.check();
}

#[tokio::test]
async fn operators_are_found_by_label_when_their_numbers_change() {
    let mut world = World::new().await;
    world.batches(5).await;
    let mut turned = operators();
    turned.reverse();
    turned[0].id = 0;
    turned[1].id = 1;
    world.config.operators = turned.clone();
    world.restart().await.unwrap();
    let found = contents(&world.state, &turned).unwrap();
    let turn = |((operator, family, group, key), value): (&crate::world::Row, &Vec<u8>)| {
        ((1 - *operator, *family, *group, key.clone()), value.clone())
    };
    assert_eq!(found, world.model.iter().map(turn).collect::<Model>());
}

#[tokio::test]
async fn a_query_that_becomes_one_with_state_starts_empty_at_its_batch() {
    let mut world = World::new().await;
    world.config.start = 41;
    world.state = StateStore::open(world.config.clone(), None).await.unwrap();
    world.batches(4).await;
    assert_eq!(world.refs.last().unwrap().version(), 45);
    world.restart().await.unwrap();
    assert_eq!(world.state.version(), 45);
    world.check();
    let mut changed = operators();
    changed[1].kind = "globalLimit".into();
    let changes = onefold_state::plan(&world.store, &world.refs[0], &changed).await.unwrap();
    assert_eq!(changes[0].change, Change::Unchanged);
    assert!(matches!(&changes[1].change, Change::Incompatible(why) if why.len() == 1));
}

#[tokio::test]
async fn two_operators_of_one_name_are_refused() {
    let mut world = World::new().await;
    world.config.operators[1].label = "aggregate".into();
    let error = StateStore::open(world.config.clone(), None).await.unwrap_err();
    assert!(error.to_string().contains("'aggregate'"), "{error}");
}
