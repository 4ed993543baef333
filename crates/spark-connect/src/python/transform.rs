//! `transformWithState` and `transformWithStateInPandas`: a processor of Python over the keys of a
//! partition. The worker gets the rows, and asks for its state and timers over a socket of its own.

use super::function::{PythonFunction, eval};
use super::pool::PythonPool;
use super::state_server::{Answers, Declared, Declaring, StateServer, serve};
use super::state_socket::StateSocket;
use super::task::{Task, aside};
use super::udf::{ROWS_AT_ONCE, taken};
use crate::rows::{plain_batch, plain_schema};
use arrow::array::{ArrayRef, StructArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use onefold_plan::schema::schema_json;
use onefold_plan::stream::{
    PartitionKeys, PartitionRows, PartitionRun, ProcessorCode, ProcessorStart, Variables,
};
use onefold_types::{Error, Result};
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

/// Rows as a worker gets them.
#[derive(Debug, Clone)]
pub(crate) struct GroupedColumns {
    /// The columns, under the names that the user sees.
    pub(crate) schema: SchemaRef,
    /// Which of them are the key.
    pub(crate) keys: Vec<usize>,
    /// How many at the beginning are no columns of the user's but parts of the key.
    pub(crate) extra: usize,
}

/// A processor with what all its tasks have in common.
#[derive(Debug, Clone)]
pub(crate) struct PythonProcessor {
    pub(crate) function: PythonFunction,
    pub(crate) pool: Arc<PythonPool>,
    pub(crate) rows: GroupedColumns,
    /// Of the initial state, if there is one.
    pub(crate) initial: Option<GroupedColumns>,
    /// Whether state must take NULL in all columns.
    pub(crate) nullable: bool,
    /// What `init` declared.
    pub(crate) declared: Declaration,
}

/// What a processor declares: it is asked once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Declaration(Arc<OnceLock<Declared>>);

impl GroupedColumns {
    /// Where the key and the values are, as the worker wants it: how many numbers follow, how many
    /// of them are the key's, these, then the user's columns.
    fn offsets(&self) -> Vec<(i32, Option<String>)> {
        let number = |it: usize| i32::try_from(it).unwrap_or(i32::MAX);
        let values = self.extra..self.schema.fields().len();
        let mut all = vec![number(1 + self.keys.len() + values.len()), number(self.keys.len())];
        all.extend(self.keys.iter().copied().map(number));
        all.extend(values.map(number));
        all.into_iter().map(|at| (at, None)).collect()
    }

    /// The key's columns.
    fn key_schema(&self) -> Schema {
        let fields = self.keys.iter().filter_map(|place| self.schema.fields().get(*place));
        Schema::new(fields.cloned().collect::<Vec<_>>())
    }
}

impl ProcessorCode for PythonProcessor {
    fn declare(&self, variables: &mut Variables) -> Result<()> {
        if self.declared.0.get().is_none() {
            // Two at once ask the same and get the same.
            let _ = self.declared.0.set(self.ask()?);
        }
        match self.declared.0.get() {
            Some(declared) => declared.declare(variables),
            None => Err(Error::internal("a processor declared nothing")),
        }
    }

    fn start(&self) -> Result<ProcessorStart> {
        Ok(ProcessorStart::Whole(Box::new(self.clone())))
    }

    fn kind(&self) -> &'static str {
        match self.function.eval_type {
            eval::STATE_PANDAS | eval::STATE_PANDAS_INITIAL => "transformWithStateInPandasExec",
            _ => "transformWithStateInPySparkExec",
        }
    }
}

impl PartitionRun for PythonProcessor {
    fn run(
        &mut self,
        rows: &PartitionRows,
        keys: &mut PartitionKeys<'_>,
    ) -> Result<Vec<RecordBatch>> {
        let declared = self.declared.0.get().cloned().unwrap_or_default();
        let output = Arc::clone(keys.output());
        let mut server = StateServer::new(keys, &declared);
        let given = aside(|| {
            // Partitions may be many; workers are as many as this machine can run at once.
            let _turn = self.pool.turn();
            self.task(Some(rows), &mut server)
        });
        if let Some(error) = server.broken.take() {
            return Err(error);
        }
        let fields = output.fields();
        given?.iter().map(|batch| taken(batch, fields)).collect()
    }
}

fn broken(error: ArrowError) -> Error {
    Error::internal("rows do not take the form that a Python worker wants").because(error)
}

impl PythonProcessor {
    /// Asks the processor what it declares: by a task without rows.
    fn ask(&self) -> Result<Declared> {
        let mut declaring = Declaring { nullable: self.nullable, ..Declaring::default() };
        let ran = self.task(None, &mut declaring);
        if let Some(error) = declaring.failure.take() {
            return Err(error);
        }
        ran?;
        Ok(declaring.declared)
    }

    /// Runs the worker over some rows, with its state at `server`.
    fn task(
        &self,
        rows: Option<&PartitionRows>,
        server: &mut dyn Answers,
    ) -> Result<Vec<RecordBatch>> {
        let socket = StateSocket::new(self.pool.sockets()?)?;
        let mut offsets = self.rows.offsets();
        offsets.extend(self.initial.iter().flat_map(GroupedColumns::offsets));
        let task = Task {
            function: &self.function,
            partition: 0,
            batch: None,
            arguments: Some(offsets),
            eval_conf: vec![
                ("state_server_socket_port".to_owned(), socket.path().display().to_string()),
                ("grouping_key_schema".to_owned(), schema_json(&self.rows.key_schema())),
            ],
        };
        let input = |out: &mut dyn Write| self.write(rows, out).map_err(io::Error::other);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                let given = task.run(&self.pool, &input);
                socket.finish();
                given
            });
            let served = serve(&socket, server);
            if served.is_err() {
                // The worker waits for an answer that does not come.
                socket.finish();
            }
            let given = running.join();
            let given = given.map_err(|_| Error::internal("the thread of a task panicked"))?;
            let given = given?;
            served.map_err(|error| {
                Error::internal("a Python worker asked for its state in an unknown form")
                    .because(error)
            })?;
            Ok(given)
        })
    }

    /// Writes the rows as one Arrow stream.
    fn write(&self, rows: Option<&PartitionRows>, out: &mut dyn Write) -> Result<()> {
        let schema = self.sent_schema();
        let mut writer = StreamWriter::try_new(out, &schema).map_err(broken)?;
        if let Some(rows) = rows {
            if let Some(columns) = &self.initial {
                for batch in rows.initial() {
                    self.send(&mut writer, &self.fit(columns, &batch?)?, 1)?;
                }
            }
            for batch in rows.rows() {
                self.send(&mut writer, &self.fit(&self.rows, &batch?)?, 0)?;
            }
        }
        writer.finish().map_err(broken)
    }

    /// The columns that are sent: those of the rows, or rows and initial state as two structs.
    fn sent_schema(&self) -> SchemaRef {
        let rows = self.plain(&self.rows.schema);
        let Some(initial) = &self.initial else { return rows };
        let initial = self.plain(&initial.schema);
        let column = |name: &str, schema: &SchemaRef| {
            Field::new(name, DataType::Struct(schema.fields().clone()), true)
        };
        Arc::new(Schema::new(vec![column("inputData", &rows), column("initState", &initial)]))
    }

    /// The types that a worker knows. Rows of Python see times in the session's zone; pandas
    /// converts them by itself.
    fn plain(&self, schema: &Schema) -> SchemaRef {
        let of_rows =
            matches!(self.function.eval_type, eval::STATE_ROWS | eval::STATE_ROWS_INITIAL);
        let zone = self.function.setting("spark.sql.session.timeZone");
        let field = |field: &Arc<Field>| {
            let field = field.as_ref().clone().with_nullable(true);
            match (field.data_type(), zone) {
                (DataType::Timestamp(TimeUnit::Microsecond, Some(_)), Some(zone)) if of_rows => {
                    let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some(zone.into()));
                    field.with_data_type(zoned)
                }
                _ => field,
            }
        };
        let fields: Fields = plain_schema(schema).fields().iter().map(field).collect();
        Arc::new(Schema::new(fields))
    }

    fn fit(&self, columns: &GroupedColumns, batch: &RecordBatch) -> Result<RecordBatch> {
        let batch = plain_batch(batch, &plain_schema(&batch.schema()))
            .map_err(|failure| Error::internal(failure.message().to_owned()))?;
        let schema = self.plain(&columns.schema);
        let arrays = batch.columns().iter().zip(schema.fields());
        let arrays = arrays.map(|(array, field)| cast(array, field.data_type()));
        let arrays = arrays.collect::<std::result::Result<Vec<ArrayRef>, _>>().map_err(broken)?;
        RecordBatch::try_new(schema, arrays).map_err(broken)
    }

    /// Sends rows in parts of the size that the session wants; with an initial state, as the
    /// struct at `place`.
    fn send(
        &self,
        writer: &mut StreamWriter<&mut dyn Write>,
        batch: &RecordBatch,
        place: usize,
    ) -> Result<()> {
        let at_once = self.function.setting("spark.sql.execution.arrow.maxRecordsPerBatch");
        let at_once = at_once.and_then(|text| text.parse::<i64>().ok());
        let at_once = match at_once {
            Some(count) => usize::try_from(count).ok().filter(|count| *count > 0),
            None => Some(ROWS_AT_ONCE),
        };
        let (mut from, rows) = (0, batch.num_rows());
        let at_once = at_once.unwrap_or(rows);
        while from < rows {
            let count = at_once.min(rows - from);
            let part = batch.slice(from, count);
            from += count;
            let part = match &self.initial {
                None => part,
                Some(_) => in_struct(&self.sent_schema(), part, place)?,
            };
            writer.write(&part).map_err(broken)?;
        }
        Ok(())
    }
}

/// Rows as one struct, with the other NULL.
fn in_struct(schema: &SchemaRef, part: RecordBatch, place: usize) -> Result<RecordBatch> {
    let rows = part.num_rows();
    let own: ArrayRef = Arc::new(StructArray::from(part));
    let columns = schema.fields().iter().enumerate().map(|(at, field)| {
        if at == place { Arc::clone(&own) } else { new_null_array(field.data_type(), rows) }
    });
    RecordBatch::try_new(Arc::clone(schema), columns.collect()).map_err(broken)
}
