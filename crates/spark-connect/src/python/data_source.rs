//! Data sources in Python (`spark.dataSource.register`): batch and stream, reading and writing.
//!
//! A class of the user's is made an instance, planned and committed by the planner modules of
//! PySpark; its rows come from and go to ordinary workers, in Arrow.

mod batch;
mod planner;
mod runner;
mod sink;
mod stream;

pub(crate) use batch::{read, write};
pub(crate) use sink::sink;
pub(crate) use stream::stream;

use super::calls::Calls;
use super::function::{PythonFunction, eval};
use super::pool::PythonPool;
use super::task::Task;
use super::udf::{structs, taken};
use super::wire::{write_bytes, write_count, write_int, write_text};
use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::rows::{plain_batch, plain_schema};
use arrow::array::{AsArray, BinaryArray};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use onefold_plan::schema::{parse_schema, schema_json};
use onefold_types::{Error, Result};
use planner::{Planner, flag};
use spark_connect_proto::CommonInlineUserDefinedDataSource;
use spark_connect_proto::common_inline_user_defined_data_source::DataSource as Kind;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A class that a client registered.
#[derive(Debug, Clone)]
pub(crate) struct DataSourceClass {
    /// Its name as a format.
    pub(crate) name: String,
    command: Vec<u8>,
    version: String,
}

impl DataSourceClass {
    /// # Errors
    /// The message has no class.
    pub(crate) fn of(source: &CommonInlineUserDefinedDataSource) -> Outcome<Self> {
        let Some(Kind::PythonDataSource(python)) = &source.data_source else {
            return Err(Failure::missing("data_source"));
        };
        Ok(DataSourceClass {
            name: source.name.clone(),
            command: python.command.to_vec(),
            version: python.python_ver.clone(),
        })
    }
}

/// What all work with a data source has in common.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    class: DataSourceClass,
    options: BTreeMap<String, String>,
    pool: Arc<PythonPool>,
    settings: Vec<(String, String)>,
}

impl Setting {
    pub(crate) fn new(
        session: &ClientSession,
        class: DataSourceClass,
        options: impl IntoIterator<Item = (String, String)>,
    ) -> Outcome<Self> {
        let settings = PythonFunction::settings_of(session);
        let options = options.into_iter().collect();
        Ok(Setting { class, options, pool: session.python()?, settings })
    }

    /// A function over batches that a planner made.
    fn function(&self, command: Vec<u8>, output: Fields) -> PythonFunction {
        PythonFunction {
            name: self.class.name.clone(),
            eval_type: eval::MAP_IN_ARROW,
            command,
            version: self.class.version.clone(),
            output: DataType::Struct(output),
            settings: self.settings.clone(),
            calls: Calls::default(),
        }
    }

    fn rows_at_once(&self) -> i32 {
        let name = "spark.sql.execution.arrow.maxRecordsPerBatch";
        let found = self.settings.iter().find(|(own, _)| own == name);
        let count = found.and_then(|(_, value)| value.parse().ok());
        count.filter(|count| *count > 0).unwrap_or(i32::MAX)
    }

    fn write_options(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut out = out;
        write_count(&mut out, self.options.len())?;
        for (name, value) in &self.options {
            write_text(&mut out, name)?;
            write_text(&mut out, value)?;
        }
        Ok(())
    }

    fn planner(&self, module: &'static str) -> Planner<'_> {
        Planner { pool: &self.pool, module, version: &self.class.version }
    }

    /// Makes an instance of the class; the user's schema, if given, holds in place of its own.
    ///
    /// # Errors
    /// Invalid, with the traceback, when the class raises.
    fn instance(&self, schema: Option<&Schema>) -> Result<Instance> {
        let write = |out: &mut dyn Write| {
            let mut out = out;
            write_bytes(&mut out, &self.class.command)?;
            write_text(&mut out, &self.class.name)?;
            out.write_all(&[u8::from(schema.is_some())])?;
            if let Some(schema) = schema {
                write_text(&mut out, &schema_json(schema))?;
            }
            self.write_options(out)
        };
        self.planner("pyspark.sql.worker.create_data_source").run(&write, |answers| {
            let pickled = answers.bytes()?;
            // Whether it is DDL, which reads the same.
            answers.int()?;
            let text = String::from_utf8_lossy(&answers.bytes()?).into_owned();
            Ok(Instance { pickled, schema: parse_schema(&text)? })
        })
    }

    /// Plans reading: the function that reads a partition, and, of a batch, the partitions.
    fn plan_read(&self, instance: &Instance, streaming: bool) -> Result<Reading> {
        let input = Schema::new(vec![Field::new("partition", DataType::Binary, true)]);
        let write = |out: &mut dyn Write| {
            let mut out = out;
            write_bytes(&mut out, &instance.pickled)?;
            write_text(&mut out, &schema_json(&input))?;
            write_text(&mut out, &schema_json(&instance.schema))?;
            write_int(&mut out, self.rows_at_once())?;
            // No filters are pushed down; then, whether binary values come as bytes.
            out.write_all(&[flag(false), flag(streaming), flag(true)])
        };
        self.planner("pyspark.sql.worker.plan_data_source_read").run(&write, |answers| {
            let command = answers.bytes()?;
            let mut partitions = Vec::new();
            for _ in 0..answers.int()? {
                partitions.push(answers.bytes()?);
            }
            let fields = instance.schema.fields().clone();
            Ok(Reading { function: self.function(command, fields), partitions })
        })
    }

    /// Plans writing rows: the function that writes a partition and gives its commit message, and
    /// the pickled writer.
    fn plan_write(&self, schema: &Schema, overwrite: bool, streaming: bool) -> Result<Writing> {
        let message = Schema::new(vec![Field::new(MESSAGE, DataType::Binary, true)]);
        let write = |out: &mut dyn Write| {
            let mut to = &mut *out;
            write_bytes(&mut to, &self.class.command)?;
            write_text(&mut to, &self.class.name)?;
            write_text(&mut to, &schema_json(schema))?;
            write_text(&mut to, &schema_json(&message))?;
            self.write_options(out)?;
            out.write_all(&[flag(overwrite), flag(streaming), flag(true)])
        };
        self.planner("pyspark.sql.worker.write_into_data_source").run(&write, |answers| {
            let function = self.function(answers.bytes()?, message.fields().clone());
            Ok(Writing { function, writer: answers.bytes()?, pool: Arc::clone(&self.pool) })
        })
    }
}

/// The column of commit messages.
const MESSAGE: &str = "message";

/// A data source that was made.
#[derive(Debug, Clone)]
struct Instance {
    pickled: Vec<u8>,
    schema: SchemaRef,
}

/// How partitions are read.
#[derive(Debug)]
struct Reading {
    function: PythonFunction,
    partitions: Vec<Vec<u8>>,
}

impl Reading {
    /// The rows of a partition. Blocks.
    fn read(&self, pool: &PythonPool, number: i32, partition: &[u8]) -> Result<Vec<RecordBatch>> {
        let DataType::Struct(fields) = &self.function.output else {
            return Err(Error::internal("a data source gives no columns"));
        };
        let column = BinaryArray::from_iter_values([partition]);
        let batch = RecordBatch::try_from_iter([("partition", Arc::new(column) as _)]);
        let batch = batch.map_err(broken)?;
        let (schema, one) = (batch.schema(), Mutex::new(Some(batch)));
        let next = || Ok(one.lock().unwrap_or_else(PoisonError::into_inner).take());
        let given = run(pool, &self.function, number, &schema, &next)?;
        given.iter().map(|batch| taken(batch, fields)).collect()
    }
}

/// How partitions are written.
#[derive(Debug)]
struct Writing {
    function: PythonFunction,
    writer: Vec<u8>,
    pool: Arc<PythonPool>,
}

impl Writing {
    /// Writes the rows of a partition as they come: its pickled commit message. Blocks.
    fn write(&self, number: i32, schema: &SchemaRef, next: Next<'_>) -> Result<Vec<u8>> {
        let given = run(&self.pool, &self.function, number, schema, next)?;
        let message = given.first().and_then(|batch| {
            let batch = match batch.columns() {
                [only] => only.as_struct_opt().map(|it| RecordBatch::from(it.clone())),
                _ => None,
            };
            let column = batch?.columns().first()?.clone();
            column.as_binary_opt::<i32>().map(|column| column.value(0).to_vec())
        });
        message.ok_or_else(|| Error::internal("a data source gave no commit message"))
    }
}

fn broken(error: arrow::error::ArrowError) -> Error {
    Error::internal("rows do not take the form that a Python worker wants").because(error)
}

/// Rows as workers get them: a struct in one column.
fn sent(batch: &RecordBatch, schema: &Schema) -> Result<RecordBatch> {
    let batch = plain_batch(batch, &plain_schema(schema))
        .map_err(|failure| Error::internal(failure.message().to_owned()))?;
    Ok(structs(&batch))
}

/// Gives rows one batch after the other, and `None` behind the last. Blocks.
type Next<'a> = &'a (dyn Fn() -> Result<Option<RecordBatch>> + Sync);

/// Runs a function over batches of a schema, each as it comes.
fn run(
    pool: &PythonPool,
    function: &PythonFunction,
    partition: i32,
    schema: &SchemaRef,
    next: Next<'_>,
) -> Result<Vec<RecordBatch>> {
    // Of no rows, the columns must be known still.
    let columns = sent(&RecordBatch::new_empty(Arc::clone(schema)), schema)?.schema();
    let input = |out: &mut dyn Write| {
        let mut writer = StreamWriter::try_new(out, &columns).map_err(io::Error::other)?;
        while let Some(batch) = next().map_err(io::Error::other)? {
            let batch = sent(&batch, schema).map_err(io::Error::other)?;
            writer.write(&batch).map_err(io::Error::other)?;
        }
        writer.finish().map_err(io::Error::other)
    };
    let arguments = Some(vec![(0, None)]);
    let task = Task { function, partition, batch: None, arguments, eval_conf: Vec::new() };
    task.run(pool, &input)
}
