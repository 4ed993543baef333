//! Marks: what a database remembers of a query, and what stops one.

use crate::on_each_database;
use crate::sink::rig::rows;
use onefold_types::{BatchId, ErrorKind};

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_there_once_with_its_mark_and_without_staging_tables() {
    on_each_database!(rig, {
        let sink = rig.open(1, None, None).await.unwrap();
        assert_eq!(sink.last_mark().await.unwrap(), None);
        let published = rig.run(&*sink, 1, 0, vec![rows(&[1, 2]), rows(&[3])]).await.unwrap();
        assert_eq!(published.totals.unwrap().rows, 3);
        // The same batch again, by a newer driver that did not see the reply.
        let sink = rig.open(2, None, Some(0)).await.unwrap();
        assert_eq!(sink.last_mark().await.unwrap(), Some(published));
        let again = rig.run(&*sink, 2, 0, vec![rows(&[1, 2]), rows(&[3])]).await.unwrap();
        assert_eq!(again, published);
        assert_eq!(rig.ids().await, [1, 2, 3]);
        assert_eq!(rig.staging_tables().await, 0);
        assert_eq!(sink.audit(BatchId(0)).await.unwrap(), published.totals);
        assert_eq!(sink.audit(BatchId(1)).await.unwrap(), None);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_driver_is_refused_at_open_and_at_publish() {
    on_each_database!(rig, {
        let old = rig.open(1, None, None).await.unwrap();
        let new = rig.open(2, None, Some(0)).await.unwrap();
        let error = rig.run(&*old, 1, 0, vec![rows(&[1])]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced, "{}", error.chain());
        let error = rig.open(1, None, Some(0)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced, "{}", error.chain());
        rig.run(&*new, 2, 0, vec![rows(&[2])]).await.unwrap();
        assert_eq!(rig.ids().await, [2]);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_ahead_of_the_checkpoint_or_behind_it_stops_the_query() {
    on_each_database!(rig, {
        let sink = rig.open(1, None, None).await.unwrap();
        rig.run(&*sink, 1, 0, vec![rows(&[1])]).await.unwrap();
        rig.run(&*sink, 1, 1, vec![rows(&[2])]).await.unwrap();
        let error = rig.open(2, None, Some(0)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("only reaches batch 0"), "{error}");
        let error = rig.open(3, Some(2), Some(2)).await.unwrap_err();
        assert!(error.to_string().contains("committed batch 2"), "{error}");
        rig.open(4, Some(1), Some(1)).await.unwrap();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_made_anew_does_not_append_all_rows_again() {
    on_each_database!(rig, {
        let sink = rig.open(1, None, None).await.unwrap();
        rig.run(&*sink, 1, 0, vec![rows(&[1])]).await.unwrap();
        let other = rig.other();
        let error = other.open(1, None, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(&rig.query.to_string()), "{error}");
        let other = other.with("onefold.jdbc.sharedTable", "true");
        let sink = other.open(2, None, None).await.unwrap();
        other.run(&*sink, 2, 0, vec![rows(&[2])]).await.unwrap();
        assert_eq!(rig.ids().await, [1, 2]);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_numbered_write_is_made_once() {
    on_each_database!(rig, {
        let numbered =
            |number: &str| rig.clone().with("txnAppId", "app").with("txnVersion", number);
        numbered("3").write("errorifexists", rows(&[1])).await.unwrap();
        numbered("3").write("errorifexists", rows(&[1])).await.unwrap();
        numbered("2").write("append", rows(&[1])).await.unwrap();
        numbered("4").write("append", rows(&[2])).await.unwrap();
        assert_eq!(rig.ids().await, [1, 2]);
        // In another table the same number is another write, and a query may follow writes.
        let other = super::rig::unique("other");
        let beside = rig.clone().with("dbtable", &other);
        let beside = super::rig::Rig { table: other, ..beside };
        let numbered = beside.clone().with("txnAppId", "app").with("txnVersion", "3");
        numbered.write("errorifexists", rows(&[5])).await.unwrap();
        let sink = beside.open(1, None, None).await.unwrap();
        beside.run(&*sink, 1, 0, vec![rows(&[6])]).await.unwrap();
        assert_eq!(beside.ids().await, [5, 6]);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn staging_tables_of_a_dead_driver_go_at_the_next_start() {
    on_each_database!(rig, {
        use crate::sink::rig::stream;
        let sink = rig.open(1, None, None).await.unwrap();
        let attempt = rig.attempt(0, 1);
        sink.stage(&attempt, 0, stream(vec![rows(&[1])])).await.unwrap();
        assert_eq!(rig.staging_tables().await, 1);
        drop(sink);
        rig.open(2, None, Some(0)).await.unwrap();
        assert_eq!(rig.staging_tables().await, 0);
    });
}
