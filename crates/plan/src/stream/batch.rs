//! The physical plan of one batch.

use super::counting::CountingExec;
use super::physical::BatchPlanner;
use super::table::{place, stream_definition};
use super::{
    BatchContext, BatchPlan, BatchWatermark, Prepared, StreamingPlan, calls, fixed, propagate,
    seeded,
};
use crate::failure;
use crate::functions::http_call::Handle;
use crate::observe::ObservedPlanner;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::{
    Expr, LogicalPlan, TableProviderFilterPushDown, TableScan, TableType,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use onefold_connector::{ScanRequest, Source};
use onefold_types::{BatchId, Error, OffsetRange, QueryId, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub(super) async fn instantiate(
    plan: &StreamingPlan,
    prepared: &Prepared,
    reads: &[(Arc<dyn Source>, OffsetRange)],
    context: &BatchContext,
) -> Result<BatchPlan> {
    let input_rows: Vec<Arc<AtomicU64>> = reads.iter().map(|_| Arc::default()).collect();
    let logical = bind(plan, prepared, reads, &input_rows, context).map_err(failure::planning)?;
    let state = &prepared.state;
    let known = &plan.stateful;
    let watermarks = |at_ms: i64| {
        known
            .flow
            .as_ref()
            .map_or_else(Vec::new, |flow| propagate::propagate(flow, at_ms, known.operators))
    };
    let own = (watermarks(context.watermark.late_ms), watermarks(context.watermark.evict_ms));
    let nodes = BatchPlanner::new(
        (context, prepared.leaving.clone()),
        (plan.mode, &known.ttl()),
        own,
        known.watermarks.len(),
    );
    let nodes = Arc::new(nodes);
    let planner = DefaultPhysicalPlanner::with_extension_planners(vec![
        Arc::clone(&nodes) as _,
        Arc::new(ObservedPlanner),
    ]);
    let physical = planner.create_physical_plan(&logical, state).await;
    let physical = physical.map_err(failure::planning)?;
    let seed = fixed::batch_seed(context);
    let physical = seeded::seed_nodes(physical, seed).map_err(failure::planning)?;
    Ok(BatchPlan {
        plan: physical,
        input_rows,
        event_times: nodes.event_times(),
        operators: nodes.operators(),
    })
}

/// The optimised plan with the batch's ranges in place of the streams and the batch's values in
/// place of the parameters.
fn bind(
    plan: &StreamingPlan,
    prepared: &Prepared,
    reads: &[(Arc<dyn Source>, OffsetRange)],
    input_rows: &[Arc<AtomicU64>],
    context: &BatchContext,
) -> PlanResult<LogicalPlan> {
    let mut counted = vec![false; reads.len()];
    let caller = Handle::of(&prepared.state);
    let bound = prepared.optimised.clone().transform_up_with_subqueries(|node| {
        let node = node.map_expressions(|expr| {
            fixed::fill(expr, context)?
                .transform_data(|expr| calls::bind(expr, caller.as_ref(), context))
        })?;
        let LogicalPlan::TableScan(scan) = &node.data else { return Ok(node) };
        let Some(definition) = stream_definition(scan) else { return Ok(node) };
        let found = place(&plan.sources, &definition).and_then(|place| {
            Some((reads.get(place)?, input_rows.get(place)?, counted.get_mut(place)?))
        });
        let Some(((source, range), rows, counted)) = found else {
            return Err(failure::external(Error::internal(format!(
                "the plan reads {}, which is not among its sources",
                definition.description()
            ))));
        };
        let rows = (!std::mem::replace(counted, true)).then(|| Arc::clone(rows));
        let table = BatchTable {
            source: Arc::clone(source),
            range: range.clone(),
            schema: definition.schema(),
            description: definition.description(),
            rows,
        };
        let scan = TableScan { source: provider_as_source(Arc::new(table)), ..scan.clone() };
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    });
    bound.data()
}

/// The plan with values in place of the parameters, to look at and not to run.
pub(super) fn filled(plan: LogicalPlan) -> PlanResult<LogicalPlan> {
    let context = BatchContext {
        query: QueryId(Default::default()),
        batch: BatchId(0),
        timestamp_ms: 0,
        watermark: BatchWatermark::default(),
        state: None,
        late_rows: None,
        dead_letters: None,
        effects: None,
    };
    plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| fixed::fill(expr, &context))
    })
    .data()
}

/// One range of one source as a table.
#[derive(Debug)]
struct BatchTable {
    source: Arc<dyn Source>,
    range: OffsetRange,
    schema: SchemaRef,
    description: String,
    rows: Option<Arc<AtomicU64>>,
}

#[async_trait]
impl TableProvider for BatchTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> PlanResult<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        // Sources need not know how to give rows without columns.
        let nothing = projection.is_some_and(Vec::is_empty) && !self.schema.fields().is_empty();
        let first = vec![0];
        let wanted = if nothing { Some(&first) } else { projection };
        let scan = ScanRequest { projection: wanted, filters, session: state };
        let read = self.source.read(&self.range, scan).await.map_err(failure::external)?;
        let schema = match wanted {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        self.check(&read.schema(), &schema).map_err(failure::external)?;
        let counted = Arc::new(CountingExec::new(read, schema, self.rows.clone()));
        if nothing {
            let none: Vec<(Arc<dyn PhysicalExpr>, String)> = Vec::new();
            return Ok(Arc::new(ProjectionExec::try_new(none, counted)?));
        }
        Ok(counted)
    }
}

impl BatchTable {
    fn check(&self, read: &Schema, promised: &Schema) -> Result<()> {
        let types = |schema: &Schema| -> Vec<_> {
            schema.fields().iter().map(|field| field.data_type().clone()).collect()
        };
        if types(read) == types(promised) {
            return Ok(());
        }
        Err(Error::internal(format!(
            "{} reads columns ({}) other than those it promised ({})",
            self.description,
            crate::schema::schema_ddl(read),
            crate::schema::schema_ddl(promised)
        )))
    }
}
