//! Tables, files and streams.

use super::{Planner, table_reference};
use crate::failure::{Failure, Outcome};
use datafusion::logical_expr::LogicalPlan;
use spark_connect_proto::Read;
use spark_connect_proto::read::{DataSource, ReadType};

impl Planner<'_> {
    pub(super) fn read(&mut self, read: &Read) -> Outcome<LogicalPlan> {
        match read.read_type.as_ref().ok_or_else(|| Failure::missing("read_type"))? {
            ReadType::NamedTable(table) if read.is_streaming => {
                crate::tables::stream(self.session, &table.unparsed_identifier)
            }
            ReadType::NamedTable(table) => {
                let reference = table_reference(&table.unparsed_identifier)?;
                Ok(self.session.engine.table_by(reference)?.logical_plan().clone())
            }
            ReadType::DataSource(source) if read.is_streaming => self.stream(source),
            ReadType::DataSource(source) => self.files(source),
        }
    }

    fn stream(&mut self, source: &DataSource) -> Outcome<LogicalPlan> {
        let mut reader = self.session.engine.read_stream();
        let format = source.format.as_deref().filter(|format| !format.is_empty());
        reader = reader.format(format.unwrap_or("parquet"));
        if let Some(schema) = source.schema.as_deref().filter(|schema| !schema.is_empty()) {
            reader = reader.schema(schema);
        }
        let options = source.options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        reader = reader.options(options);
        if let Some(name) = source.source_name.as_deref() {
            reader = reader.name(name);
        }
        let frame = reader.load_paths(source.paths.iter().cloned())?;
        Ok(frame.logical_plan().clone())
    }

    fn files(&mut self, source: &DataSource) -> Outcome<LogicalPlan> {
        let mut reader = self.session.engine.read();
        let format = source.format.as_deref().filter(|format| !format.is_empty());
        reader = reader.format(format.unwrap_or("parquet"));
        if let Some(schema) = source.schema.as_deref().filter(|schema| !schema.is_empty()) {
            reader = reader.schema(schema);
        }
        let options = source.options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        reader = reader.options(options);
        let frame = reader.load_paths(source.paths.iter().cloned())?;
        Ok(frame.logical_plan().clone())
    }
}
