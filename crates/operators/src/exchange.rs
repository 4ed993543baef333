//! Brings all rows of a key group into the partition that owns the group.
//!
//! # Invariants
//! - Rows of one input partition keep their order within an output partition.
//! - An input is read on only while some output has nothing to read, so that a slow reader does
//!   not make a batch pile up in memory; one reading output after output still ends.
//! - Outputs may be executed once each.

mod gate;

use crate::failure;
use crate::keys::{Keys, RowCodec};
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::Schema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::StreamExt;
use gate::{Receiver, Sender};
use onefold_state::{KEY_GROUPS, partition_of};
use onefold_types::{Error, Result as OwnResult};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// Repartitions rows by the key group of their key.
#[derive(Debug)]
pub struct KeyGroupExchangeExec {
    input: Arc<dyn ExecutionPlan>,
    keys: Vec<PhysicalExprRef>,
    codec: Arc<RowCodec>,
    partitions: u32,
    properties: Arc<PlanProperties>,
    /// What is between the inputs and each output, once one was executed.
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    outputs: Vec<Option<Receiver>>,
    /// Reads the inputs; ends with the last output.
    readers: Arc<JoinSet<()>>,
}

impl KeyGroupExchangeExec {
    /// Rows with equal `keys` (as normalised) go into one of `partitions`. Without keys there is
    /// one partition.
    ///
    /// # Errors
    /// Invalid: a key has a type that cannot be encoded. Internal: a number of partitions out of
    /// range.
    pub fn try_new(
        input: Arc<dyn ExecutionPlan>,
        keys: Vec<PhysicalExprRef>,
        partitions: u32,
    ) -> OwnResult<Self> {
        if !(1..=KEY_GROUPS).contains(&partitions) {
            return Err(Error::internal(format!("an exchange into {partitions} partitions")));
        }
        let codec = codec_of(&keys, &input.schema()).map_err(failure::planning)?;
        let partitions = if keys.is_empty() { 1 } else { partitions };
        Ok(Self::build(input, keys, Arc::new(codec), partitions))
    }

    fn build(
        input: Arc<dyn ExecutionPlan>,
        keys: Vec<PhysicalExprRef>,
        codec: Arc<RowCodec>,
        partitions: u32,
    ) -> Self {
        let count = usize::try_from(partitions).unwrap_or(1);
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(count),
            EmissionType::Incremental,
            input.properties().boundedness,
        ));
        KeyGroupExchangeExec {
            input,
            keys,
            codec,
            partitions,
            properties,
            running: Mutex::new(None),
        }
    }

    fn start(&self, context: &Arc<TaskContext>) -> Result<Running> {
        let inputs = self.input.properties().partitioning.partition_count();
        let (senders, receivers) = gate::channels(usize::try_from(self.partitions).unwrap_or(1));
        let mut readers = JoinSet::new();
        for partition in 0..inputs {
            let input = self.input.execute(partition, Arc::clone(context))?;
            let split = Split {
                keys: self.keys.clone(),
                codec: Arc::clone(&self.codec),
                partitions: self.partitions,
            };
            readers.spawn(read(input, split, senders.clone()));
        }
        Ok(Running {
            outputs: receivers.into_iter().map(Some).collect(),
            readers: Arc::new(readers),
        })
    }
}

fn codec_of(keys: &[PhysicalExprRef], schema: &Schema) -> Result<RowCodec> {
    let types = keys.iter().map(|key| key.data_type(schema));
    RowCodec::try_new(types.collect::<Result<Vec<_>>>()?)
}

/// How rows of a batch are told apart.
struct Split {
    keys: Vec<PhysicalExprRef>,
    codec: Arc<RowCodec>,
    partitions: u32,
}

impl Split {
    /// The rows of each output that gets any.
    fn split(&self, batch: RecordBatch) -> Result<Vec<(usize, RecordBatch)>> {
        if self.partitions == 1 {
            return Ok(vec![(0, batch)]);
        }
        let keys = Keys::of(&self.keys, &self.codec, &batch)?;
        let mut rows = vec![Vec::new(); usize::try_from(self.partitions).unwrap_or(1)];
        for (row, group) in (0_u32..).zip(keys.groups()) {
            let output = usize::try_from(partition_of(*group, self.partitions)).unwrap_or(0);
            if let Some(rows) = rows.get_mut(output) {
                rows.push(row);
            }
        }
        let mut parts = Vec::new();
        for (output, rows) in rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            parts.push((output, take_record_batch(&batch, &UInt32Array::from(rows))?));
        }
        Ok(parts)
    }
}

/// Reads one input to its end.
async fn read(mut input: SendableRecordBatchStream, split: Split, senders: Vec<Sender>) {
    while let Some(batch) = input.next().await {
        match batch.and_then(|batch| split.split(batch)) {
            Ok(parts) => {
                for (output, part) in parts {
                    if let Some(sender) = senders.get(output) {
                        sender.send(Ok(part)).await;
                    }
                }
            }
            Err(error) => {
                gate::fail_all(&senders, error);
                return;
            }
        }
    }
}

impl DisplayAs for KeyGroupExchangeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyGroupExchangeExec: partitions={}, keys=[", self.partitions)?;
        for (place, key) in self.keys.iter().enumerate() {
            write!(f, "{}{key}", if place == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

impl ExecutionPlan for KeyGroupExchangeExec {
    fn name(&self) -> &str {
        "KeyGroupExchangeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut next = TreeNodeRecursion::Continue;
        for key in &self.keys {
            next = visit(key)?;
            if next == TreeNodeRecursion::Stop {
                break;
            }
        }
        Ok(next)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self::build(
                input,
                self.keys.clone(),
                Arc::clone(&self.codec),
                self.partitions,
            ))),
            Err(_) => Err(failure::internal("KeyGroupExchangeExec has one child")),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            *running = Some(self.start(&context)?);
        }
        let found = running.as_mut().and_then(|running| {
            let output = running.outputs.get_mut(partition)?.take()?;
            Some((output, Arc::clone(&running.readers)))
        });
        let Some((output, readers)) = found else {
            return Err(failure::internal(format!(
                "partition {partition} of an exchange is not there or was executed before"
            )));
        };
        let rows = futures::stream::unfold((output, readers), |(mut output, readers)| async {
            let batch = output.receive().await?;
            Some((batch, (output, readers)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), rows)))
    }
}
