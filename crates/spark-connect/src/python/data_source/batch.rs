//! Reading and writing static rows.

use super::{DataSourceClass, Instance, Reading, Setting, flag};
use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::python::pool::PythonPool;
use crate::python::wire::{write_bytes, write_count};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType, UNNAMED_TABLE};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// A table whose partitions Python reads.
#[derive(Debug)]
struct PythonTable {
    schema: SchemaRef,
    reading: Arc<Reading>,
    pool: Arc<PythonPool>,
}

/// The plan that reads a data source.
pub(crate) fn read(
    session: &ClientSession,
    class: DataSourceClass,
    schema: Option<&Schema>,
    options: impl IntoIterator<Item = (String, String)>,
) -> Outcome<LogicalPlan> {
    let setting = Setting::new(session, class, options)?;
    let instance = setting.instance(schema)?;
    let reading = Arc::new(setting.plan_read(&instance, false)?);
    let Instance { schema, .. } = instance;
    let table = PythonTable { schema, reading, pool: setting.pool };
    let plan = LogicalPlanBuilder::scan(UNNAMED_TABLE, provider_as_source(Arc::new(table)), None)
        .and_then(LogicalPlanBuilder::build);
    Ok(plan.map_err(onefold_engine::from_datafusion)?)
}

#[async_trait]
impl TableProvider for PythonTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let parts = self.reading.partitions.clone();
        scan(&self.schema, &self.reading, &self.pool, parts, projection)
    }
}

/// A plan that reads some partitions.
pub(super) fn scan(
    schema: &SchemaRef,
    reading: &Arc<Reading>,
    pool: &Arc<PythonPool>,
    partitions: Vec<Vec<u8>>,
    projection: Option<&Vec<usize>>,
) -> PlanResult<Arc<dyn ExecutionPlan>> {
    let parts = (0..).zip(partitions).map(|(number, partition)| {
        Arc::new(Part {
            schema: Arc::clone(schema),
            reading: Arc::clone(reading),
            pool: Arc::clone(pool),
            number,
            partition,
        }) as Arc<dyn PartitionStream>
    });
    let parts = parts.collect();
    let plan =
        StreamingTableExec::try_new(Arc::clone(schema), parts, projection, None, false, None);
    Ok(Arc::new(plan?))
}

/// A partition.
#[derive(Debug)]
struct Part {
    schema: SchemaRef,
    reading: Arc<Reading>,
    pool: Arc<PythonPool>,
    number: i32,
    partition: Vec<u8>,
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&schema), 2);
        let to = builder.tx();
        let (reading, pool) = (Arc::clone(&self.reading), Arc::clone(&self.pool));
        let (number, partition) = (self.number, self.partition.clone());
        builder.spawn_blocking(move || {
            let given = reading.read(&pool, number, &partition);
            for batch in given.map_err(|error| DataFusionError::External(Box::new(error)))? {
                let batch = RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec())?;
                if to.blocking_send(Ok(batch)).is_err() {
                    // Nobody reads on.
                    break;
                }
            }
            Ok(())
        });
        builder.build()
    }
}

/// Writes the rows of a plan. Blocks.
pub(crate) fn write(
    session: &ClientSession,
    class: DataSourceClass,
    plan: LogicalPlan,
    options: impl IntoIterator<Item = (String, String)>,
    overwrite: bool,
) -> Outcome<()> {
    let setting = Setting::new(session, class, options)?;
    let schema: SchemaRef = Arc::new(crate::analyze::rows_schema(&plan));
    let writing = setting.plan_write(&schema, overwrite, false)?;
    let rows = session.engine.frame(plan).collect()?;
    let rows = Mutex::new(rows.into_iter());
    let next = || Ok(rows.lock().unwrap_or_else(PoisonError::into_inner).next());
    let written = writing.write(0, &schema, &next);
    let messages: Vec<Option<Vec<u8>>> = vec![written.as_ref().ok().cloned()];
    let tell = |out: &mut dyn Write| {
        let mut out = out;
        write_bytes(&mut out, &writing.writer)?;
        write_count(&mut out, messages.len())?;
        for message in &messages {
            super::sink::write_message(out, message.as_deref())?;
        }
        out.write_all(&[flag(written.is_err())])
    };
    let module = "pyspark.sql.worker.commit_data_source_write";
    let told = setting.planner(module).run(&tell, |answers| answers.int().map(|_| ()));
    // The first failure is the reason of the second.
    written.map_err(Failure::from)?;
    Ok(told?)
}
