//! The fault store itself: what it plans is what happens.

use crate::contract::{create, deep};
use bytes::Bytes;
use onefold_storage::{CreateError, Created, Durability, Recorded, Store, create_record};
use onefold_testkit::{Fault, FaultPlan, Happened, MemoryStore};
use onefold_types::ErrorKind;
use std::sync::Arc;

#[tokio::test]
async fn each_fault_does_and_tells_what_its_name_says() {
    for (fault, there, unknown, dead) in [
        (Fault::Before, false, false, true),
        (Fault::After, true, false, true),
        (Fault::NotDone, false, false, false),
        (Fault::DoneButUnknown, true, true, false),
        (Fault::NotDoneUnknown, false, true, false),
    ] {
        let disk = MemoryStore::default();
        let plan = FaultPlan::at(2, fault);
        let store = plan.wrap(Arc::new(disk.clone()));
        create(&*store, "0", "a").await;
        let outcome = store.create("1", Bytes::from("b"), Durability::Now).await;
        assert_eq!(matches!(outcome, Err(CreateError::MaybeDone(_))), unknown, "{fault:?}");
        assert!(outcome.is_err());
        assert_eq!(disk.read("1").await.unwrap().is_some(), there, "{fault:?}");
        assert_eq!((plan.dead(), store.read("0").await.is_err()), (dead, dead), "{fault:?}");
        let log = plan.log();
        assert_eq!(log.len(), 2);
        assert_eq!(log[1].happened == Happened::Yes, there, "{fault:?}");
    }
}

#[tokio::test]
async fn a_record_is_certain_whatever_happens_to_its_creation() {
    for fault in Fault::ALL {
        let disk = MemoryStore::default();
        let plan = FaultPlan::at(1, *fault);
        let store = plan.wrap(Arc::new(disk.clone()));
        let outcome = create_record(&*store, "0", Bytes::from("a"), Durability::Now).await;
        match outcome {
            Ok(recorded) => {
                assert_eq!(recorded, Recorded::Mine);
                assert!(disk.read("0").await.unwrap().is_some(), "{fault:?}");
            }
            Err(error) if plan.dead() => assert_eq!(error.kind(), ErrorKind::Internal),
            Err(_) => assert_eq!(disk.read("0").await.unwrap(), None, "{fault:?}"),
        }
    }
}

#[tokio::test]
async fn stores_of_one_plan_share_numbers_and_die_together() {
    let plan = FaultPlan::at(2, Fault::After);
    let one = plan.wrap(Arc::new(MemoryStore::new("one")));
    let two = plan.wrap(Arc::new(MemoryStore::new("two")));
    create(&*one, "0", "a").await;
    assert!(two.create("0", Bytes::new(), Durability::Now).await.is_err());
    assert!(one.list("").await.is_err());
    assert_eq!(plan.acts(), 2);
    assert!(plan.timeline().contains("create"), "{}", plan.timeline());
}

#[tokio::test]
async fn a_power_cut_takes_what_is_durable_only_later() {
    let disk = MemoryStore::default();
    assert_eq!(create(&disk, "now", "1").await, Created::New);
    disk.create("later", Bytes::new(), Durability::Later).await.unwrap();
    disk.create("synced", Bytes::new(), Durability::Later).await.unwrap();
    disk.sync(&["synced".to_owned()]).await.unwrap();
    disk.create("torn", Bytes::from("12345"), Durability::Later).await.unwrap();
    disk.clone().cut_power_tearing(3);
    assert_eq!(disk.read("torn").await.unwrap().unwrap(), "123");
    disk.delete("torn").await.unwrap();
    disk.delete("later").await.unwrap();
    disk.create("later", Bytes::new(), Durability::Later).await.unwrap();
    disk.cut_power();
    assert_eq!(deep(&disk, "", true).await, ["now", "synced"]);
}
