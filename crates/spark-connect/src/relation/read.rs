//! Tables, files and streams.

use super::{Planner, table_reference};
use crate::failure::{Failure, Outcome};
use crate::python::data_source;
use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use spark_connect_proto::Read;
use spark_connect_proto::read::{DataSource, ReadType};
use std::collections::BTreeMap;

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

    /// The columns that the user gave, and the options of a data source in Python.
    fn of_python(source: &DataSource) -> Outcome<(Option<SchemaRef>, BTreeMap<String, String>)> {
        let schema = source.schema.as_deref().filter(|schema| !schema.is_empty());
        let schema = schema.map(super::local::schema_of).transpose()?;
        let mut options: BTreeMap<String, String> = source.options.clone().into_iter().collect();
        match source.paths.as_slice() {
            [] => {}
            [path] => {
                options.insert("path".to_owned(), path.clone());
            }
            paths => {
                let list = serde_json::Value::from(paths.to_vec());
                options.insert("paths".to_owned(), list.to_string());
            }
        }
        Ok((schema, options))
    }

    fn stream(&mut self, source: &DataSource) -> Outcome<LogicalPlan> {
        let mut reader = self.session.engine.read_stream();
        let format = source.format.as_deref().filter(|format| !format.is_empty());
        if let Some(class) = format.and_then(|format| self.session.data_source(format)) {
            let (schema, options) = Self::of_python(source)?;
            let definition = data_source::stream(self.session, class, schema.as_deref(), options)?;
            if let Some(name) = source.source_name.as_deref() {
                reader = reader.name(name);
            }
            return Ok(reader.load_definition(definition)?.logical_plan().clone());
        }
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
        if let Some(class) = format.and_then(|format| self.session.data_source(format)) {
            let (schema, options) = Self::of_python(source)?;
            return data_source::read(self.session, class, schema.as_deref(), options);
        }
        reader = reader.format(format.unwrap_or("parquet"));
        if let Some(schema) = source.schema.as_deref().filter(|schema| !schema.is_empty()) {
            reader = reader.schema(schema);
        }
        let options = source.options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        reader = reader.options(options);
        if !source.predicates.is_empty() {
            let list = serde_json::Value::from(source.predicates.clone());
            reader = reader.options([("onefold.jdbc.predicates", list.to_string())]);
        }
        let frame = reader.load_paths(source.paths.iter().cloned())?;
        Ok(frame.logical_plan().clone())
    }
}
