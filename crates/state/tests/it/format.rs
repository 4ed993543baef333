//! The bytes of every file are frozen: a change of any of them is a change of the format.

use crate::world::World;
use onefold_storage::Store;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn names_and_bytes_of_files_never_change() {
    let mut world = World::new().await;
    world.batch(&[((0, 1, 3, b"a key".to_vec()), Some(b"a value"))]).await;
    world
        .batch(&[
            ((0, 1, 3, b"a key".to_vec()), None),
            ((0, 1, 3, b"a kex".to_vec()), Some(b"")),
            ((1, 0, 255, b"".to_vec()), Some(b"total")),
        ])
        .await;
    world.batch(&[((0, 0, 0, b"p".to_vec()), Some(b"q"))]).await;
    world.state.finish_snapshot().await;
    world.batch(&[]).await;
    let mut found = String::new();
    for path in world.store.paths() {
        let bytes = world.store.read(&path).await.unwrap().unwrap();
        let text = if path.ends_with(".json") {
            String::from_utf8(bytes.to_vec()).unwrap()
        } else {
            hex(&bytes)
        };
        found.push_str(&format!("{path}\n{text}\n"));
    }
    for state in &world.refs[1..] {
        found.push_str(&serde_json::to_string(state).unwrap());
        found.push('\n');
    }
    let golden = include_str!("format/golden.txt");
    assert!(found == golden, "the format changed; it is now:\n{found}");
}
