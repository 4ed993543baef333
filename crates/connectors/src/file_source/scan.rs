//! The plan that reads the files of one batch.

use super::note::ChosenFile;
use super::reader::{FormatReader, Wanted};
use super::rows::batch_of;
use arrow::array::{ArrayRef, Int64Array, StringArray, StructArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Fields, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use onefold_storage::location;
use onefold_types::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Name of the hidden column.
pub(crate) const METADATA: &str = "_metadata";

/// The fields of `_metadata`.
pub(crate) fn metadata_fields(row_index: bool) -> Fields {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let mut fields = vec![
        Field::new("file_path", DataType::Utf8, true),
        Field::new("file_name", DataType::Utf8, true),
        Field::new("file_size", DataType::Int64, true),
        Field::new("file_block_start", DataType::Int64, true),
        Field::new("file_block_length", DataType::Int64, true),
        Field::new("file_modification_time", time, true),
    ];
    if row_index {
        fields.push(Field::new("row_index", DataType::Int64, true));
    }
    fields.into()
}

/// Where an output column comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// A column of the file, by its place among those wanted.
    File(usize),
    /// A partition column.
    Partition(usize),
    /// `_metadata`.
    Metadata,
}

/// A file with the values of its partition columns.
pub(crate) type ScanFile = (ChosenFile, Vec<ScalarValue>);

/// What all partitions of a scan share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) reader: FormatReader,
    pub(crate) wanted: Wanted,
    pub(crate) origins: Vec<Origin>,
    pub(crate) schema: SchemaRef,
}

/// Reads files, each wholly in one partition.
#[derive(Debug)]
pub(crate) struct FileScan {
    shared: Arc<Shared>,
    groups: Vec<Arc<Vec<ScanFile>>>,
    properties: Arc<PlanProperties>,
}

impl FileScan {
    /// Spreads files over at most `partitions` groups of about the same size, in order.
    pub(crate) fn new(shared: Shared, files: Vec<ScanFile>, partitions: usize) -> FileScan {
        let sizes: Vec<u64> = files.iter().map(|file| weight(&file.0)).collect();
        let mut groups: Vec<Vec<ScanFile>> = Vec::new();
        let mut last = None;
        for (file, at) in files.into_iter().zip(places(&sizes, partitions)) {
            match groups.last_mut() {
                Some(group) if last == Some(at) => group.push(file),
                _ => groups.push(vec![file]),
            }
            last = Some(at);
        }
        if groups.is_empty() {
            groups.push(Vec::new());
        }
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&shared.schema)),
            Partitioning::UnknownPartitioning(groups.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        FileScan {
            shared: Arc::new(shared),
            groups: groups.into_iter().map(Arc::new).collect(),
            properties: Arc::new(properties),
        }
    }
}

/// What reading a file costs, in bytes: its size, and something for opening it.
fn weight(file: &ChosenFile) -> u64 {
    file.size.unwrap_or(0).saturating_add(4_096)
}

/// The part, of `partitions`, in which the middle of each file falls when all of them lie one behind the other. By their middles two equal
/// files come into two parts; by their beginnings both would be in the first.
fn places(sizes: &[u64], partitions: usize) -> Vec<usize> {
    let parts = partitions.max(1);
    let total: u128 = sizes.iter().map(|size| u128::from(*size)).sum();
    let mut before = 0_u128;
    let place = |size: &u64| {
        let size = u128::from(*size);
        // Twice the middle, of twice the whole, so that no half is lost.
        let middle = before.saturating_mul(2).saturating_add(size);
        before = before.saturating_add(size);
        let at = middle.saturating_mul(parts as u128) / total.saturating_mul(2).max(1);
        usize::try_from(at).unwrap_or(usize::MAX).min(parts - 1)
    };
    sizes.iter().map(place).collect()
}

impl DisplayAs for FileScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: usize = self.groups.iter().map(|group| group.len()).sum();
        let names: Vec<&str> =
            self.shared.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "FileScan: files={files}, columns=[{}]", names.join(", "))
    }
}

impl ExecutionPlan for FileScan {
    fn name(&self) -> &'static str {
        "FileScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> datafusion::error::Result<TreeNodeRecursion>,
    ) -> datafusion::error::Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        _: Arc<TaskContext>,
    ) -> datafusion::error::Result<SendableRecordBatchStream> {
        let Some(files) = self.groups.get(partition).map(Arc::clone) else {
            return Err(DataFusionError::Internal(format!("no partition {partition}")));
        };
        let shared = Arc::clone(&self.shared);
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.shared.schema), 2);
        let out = builder.tx();
        builder.spawn_blocking(move || {
            for file in files.iter() {
                let mut wanted = true;
                shared
                    .read(file, &mut |batch| {
                        wanted = out.blocking_send(Ok(batch)).is_ok();
                        Ok(wanted)
                    })
                    .map_err(|error| DataFusionError::External(Box::new(error)))?;
                if !wanted {
                    break;
                }
            }
            Ok(())
        });
        Ok(builder.build())
    }
}

impl Shared {
    fn read(
        &self,
        (file, partition): &ScanFile,
        emit: &mut dyn FnMut(RecordBatch) -> Result<bool>,
    ) -> Result<()> {
        self.reader.read(file, &self.wanted, &mut |batch| {
            let rows = batch.num_rows();
            let columns = self
                .origins
                .iter()
                .map(|origin| match origin {
                    Origin::File(at) => batch
                        .columns()
                        .get(*at)
                        .map(Arc::clone)
                        .ok_or_else(|| Error::internal("a column of the file is missing")),
                    Origin::Partition(at) => partition
                        .get(*at)
                        .ok_or_else(|| Error::internal("a partition value is missing"))?
                        .to_array_of_size(rows)
                        .map_err(|error| {
                            Error::internal("a partition column could not be made").because(error)
                        }),
                    Origin::Metadata => self.metadata(file, &batch),
                })
                .collect::<Result<Vec<_>>>()?;
            emit(batch_of(&self.schema, columns, rows)?)
        })
    }

    fn metadata(&self, file: &ChosenFile, batch: &RecordBatch) -> Result<ArrayRef> {
        let rows = batch.num_rows();
        let size = file.size.and_then(|size| i64::try_from(size).ok());
        let time = file.mtime.map(|ms| ms.saturating_mul(1_000));
        let times = TimestampMicrosecondArray::from(vec![time; rows]).with_timezone("UTC");
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![file.path.as_str(); rows])),
            Arc::new(StringArray::from(vec![location::file_name(&file.path); rows])),
            Arc::new(Int64Array::from(vec![size; rows])),
            Arc::new(Int64Array::from(vec![0_i64; rows])),
            Arc::new(Int64Array::from(vec![size; rows])),
            Arc::new(times),
        ];
        if self.wanted.row_index
            && let Some(numbers) = batch.columns().last()
        {
            columns.push(Arc::clone(numbers));
        }
        let fields = metadata_fields(self.wanted.row_index);
        StructArray::try_new(fields, columns, None)
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(|error| Error::internal("_metadata could not be made").because(error))
    }
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn equal_files_are_spread_evenly() {
        assert_eq!(places(&[5_000, 5_000], 2), [0, 1]);
        assert_eq!(places(&[10; 6], 3), [0, 0, 1, 1, 2, 2]);
        assert_eq!(places(&[10; 3], 8), [1, 4, 6]);
    }

    #[test]
    fn a_large_file_has_a_part_of_its_own() {
        assert_eq!(places(&[1, 1, 1_000, 1, 1], 2), [0, 0, 1, 1, 1]);
        assert_eq!(places(&[1_000, 1, 1], 2), [0, 1, 1]);
    }

    #[test]
    fn sizes_that_no_number_holds_and_no_parts_are_no_error() {
        assert_eq!(places(&[u64::MAX, u64::MAX], 2), [0, 1]);
        assert_eq!(places(&[0, 0], 2), [0, 0]);
        assert_eq!(places(&[1, 2, 3], 0), [0, 0, 0]);
        assert_eq!(places(&[], 4), [0_usize; 0]);
    }
}
