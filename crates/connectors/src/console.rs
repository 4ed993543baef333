//! The console sink: prints the rows of each batch, as Spark does.

use crate::file_sink::spark_texts;
use crate::held_rows::HeldRows;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use onefold_connector::{
    Attempt, Fence, OptionKind, OptionSpec, RowStream, Sink, SinkContext, SinkDefinition,
    SinkRequest, SinkSpec, StagedOutput,
};
use onefold_types::{BatchId, Delivery, Error, Published, Result, Totals};
use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// The console sink.
pub static SPEC: SinkSpec = SinkSpec {
    name: "console",
    summary: "prints each batch on the standard output",
    options: &[OPTIONS],
    define,
};

static OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "numRows",
        OptionKind::Count { min: 0, max: 1_000_000 },
        "rows of each batch to print",
    )
    .default("20"),
    OptionSpec::new(
        "truncate",
        OptionKind::Text,
        "true: cut texts at 20 characters; false: not at all; a number: at so many",
    )
    .default("true"),
];

/// Where the console sink prints.
pub type Out = Arc<Mutex<dyn Write + Send>>;

fn define(request: SinkRequest) -> Result<Arc<dyn SinkDefinition>> {
    define_over(&request, Arc::new(Mutex::new(std::io::stdout())))
}

/// A console sink that prints to `out`.
///
/// # Errors
/// Invalid: option `truncate` is neither a boolean nor a number.
pub fn define_over(request: &SinkRequest, out: Out) -> Result<Arc<dyn SinkDefinition>> {
    let rows_max = request.options.count("numRows").unwrap_or(20);
    let truncate = request.options.text("truncate").unwrap_or("true");
    let width_max = match truncate.to_lowercase().as_str() {
        "true" => 20,
        "false" => 0,
        number => number.parse().map_err(|_| {
            Error::invalid(format!(
                "option `truncate` of the console sink is `{truncate}`, but takes true, false or \
                 a number"
            ))
        })?,
    };
    let rows_max = usize::try_from(rows_max).unwrap_or(usize::MAX);
    Ok(Arc::new(ConsoleDefinition { rows_max, width_max, out: Shared(out) }))
}

#[derive(Clone)]
struct Shared(Out);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Out")
    }
}

#[derive(Debug)]
struct ConsoleDefinition {
    rows_max: usize,
    /// Characters of a cell at most; 0 is no limit.
    width_max: usize,
    out: Shared,
}

#[async_trait]
impl SinkDefinition for ConsoleDefinition {
    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce {
            why: "a terminal keeps no mark: a batch that runs again is printed again".to_owned(),
        }
    }

    fn description(&self) -> String {
        format!("ConsoleSink[numRows={}, truncate={}]", self.rows_max, self.width_max > 0)
    }

    async fn open(&self, context: SinkContext) -> Result<Arc<dyn Sink>> {
        let zone = context.conf.get("spark.sql.session.timeZone");
        Ok(Arc::new(Console {
            rows_max: self.rows_max,
            width_max: self.width_max,
            out: self.out.clone(),
            schema: context.schema,
            time_zone: zone.map_or("UTC", String::as_str).to_owned(),
            held: HeldRows::default(),
        }))
    }
}

#[derive(Debug)]
struct Console {
    rows_max: usize,
    width_max: usize,
    out: Shared,
    schema: SchemaRef,
    time_zone: String,
    held: HeldRows,
}

impl Console {
    /// The batch in a box, as Spark prints it.
    fn show(&self, batch: BatchId, rows: &[RecordBatch]) -> Result<String> {
        let mut table: Vec<Vec<String>> =
            vec![self.schema.fields().iter().map(|f| self.cut(f.name().clone())).collect()];
        let total: usize = rows.iter().map(RecordBatch::num_rows).sum();
        for rows in rows {
            let columns = spark_texts(rows, &self.time_zone)?;
            for row in 0..rows.num_rows() {
                if table.len() > self.rows_max {
                    break;
                }
                let cells = columns.iter().map(|column| {
                    let text = column.get(row).and_then(Option::as_deref);
                    self.cut(escape(text.unwrap_or("NULL")))
                });
                table.push(cells.collect());
            }
        }
        let mut text = format!("{0}\nBatch: {batch}\n{0}\n", "-".repeat(43));
        boxed(&table, self.width_max > 0, &mut text);
        if total > self.rows_max {
            let rows = if self.rows_max == 1 { "row" } else { "rows" };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "only showing top {} {rows}", self.rows_max);
        }
        text.push('\n');
        Ok(text)
    }

    fn cut(&self, text: String) -> String {
        if self.width_max == 0 || text.chars().count() <= self.width_max {
            return text;
        }
        if self.width_max < 4 {
            return text.chars().take(self.width_max).collect();
        }
        let mut cut: String = text.chars().take(self.width_max - 3).collect();
        cut.push_str("...");
        cut
    }
}

/// Characters that would break the box.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{c}' => out.push_str("\\f"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{7}' => out.push_str("\\a"),
            other => out.push(other),
        }
    }
    out
}

/// Characters of East Asian scripts take two columns of a terminal.
fn width(text: &str) -> usize {
    text.chars()
        .map(|c| {
            let wide = matches!(u32::from(c),
                0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xac00..=0xd7a3
                | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6);
            if wide { 2 } else { 1 }
        })
        .sum()
}

/// Draws the table; texts are set to the right where they are cut, to the left where not.
fn boxed(table: &[Vec<String>], right: bool, out: &mut String) {
    let columns = table.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|at| table.iter().filter_map(|row| row.get(at)).map(|t| width(t)).max().unwrap_or(0))
        .map(|widest| widest.max(3))
        .collect();
    let rule: String = widths.iter().map(|width| format!("+{}", "-".repeat(*width))).collect();
    let rule = format!("{rule}+\n");
    out.push_str(&rule);
    for (at, row) in table.iter().enumerate() {
        out.push('|');
        for (text, column) in row.iter().zip(&widths) {
            let space = " ".repeat(column - width(text));
            if right {
                out.push_str(&space);
            }
            out.push_str(text);
            if !right {
                out.push_str(&space);
            }
            out.push('|');
        }
        out.push('\n');
        if at == 0 {
            out.push_str(&rule);
        }
    }
    out.push_str(&rule);
}

#[async_trait]
impl Sink for Console {
    async fn last_mark(&self) -> Result<Option<Published>> {
        Ok(None)
    }

    async fn conceal(&self, _: BatchId) -> Result<()> {
        Ok(())
    }

    async fn stage(
        &self,
        attempt: &Attempt,
        partition: u32,
        rows: RowStream,
    ) -> Result<StagedOutput> {
        // One row more than is printed tells that there are more.
        self.held.stage(attempt, partition, rows, self.rows_max.saturating_add(1)).await
    }

    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        fence: &dyn Fence,
    ) -> Result<Published> {
        fence.check().await?;
        let text = self.show(attempt.batch, &self.held.take(attempt))?;
        let mut out = self.out.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| {
            Error::unknown(format!("batch {} may be printed in part", attempt.batch)).because(e)
        })?;
        Ok(crate::noop::published(attempt, &outputs))
    }

    async fn settle(&self, _: &Published) -> Result<()> {
        Ok(())
    }

    async fn discard(&self, attempt: &Attempt) -> Result<()> {
        self.held.take(attempt);
        Ok(())
    }

    async fn audit(&self, _: BatchId) -> Result<Option<Totals>> {
        Ok(None)
    }

    fn tells_totals(&self) -> bool {
        // It has none to tell after a restart, and needs none.
        true
    }
}
