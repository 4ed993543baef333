//! `CREATE SINK` and `CREATE FLOW … AS INSERT INTO`: places to write to, and the queries that write
//! into them. The words are those of Spark's declarative pipelines, where a sink is made from Python.

use super::ast::{Pipeline, Place, Sink, Statement, StreamingTable};
use super::clauses::Of;
use super::parse::Parser;
use crate::sql::text::error_at;
use datafusion::sql::sqlparser::tokenizer::{Location, Token};
use onefold_types::{Error, OptionMap, Result};

impl Parser<'_> {
    /// What follows `CREATE SINK`.
    pub(super) fn sink(&mut self, place: Place) -> Result<Sink> {
        self.take_words(&["if", "not", "exists"]);
        let name = self.dotted("the sink's name")?;
        let said = self.clauses(Of::Sink)?;
        let Some(format) = said.format else {
            return Err(self.wanted("USING and the sink's format, such as USING kafka"));
        };
        let (partition_by, location) = (said.partition_by, said.location);
        let (options, output_mode, comment) = (said.options, said.output_mode, said.comment);
        Ok(Sink { name, format, partition_by, location, options, output_mode, comment, place })
    }

    /// What follows `CREATE FLOW`. Its sink is looked up by [`into_sinks`], as it may stand further
    /// down in the file.
    pub(super) fn flow(&mut self, place: Place) -> Result<StreamingTable> {
        let if_not_exists = self.take_words(&["if", "not", "exists"]);
        let name = self.dotted("the flow's name")?;
        let said = self.clauses(Of::Flow)?;
        if !self.take_words(&["insert", "into"]) {
            return Err(self.wanted("INSERT INTO"));
        }
        self.take_word("table");
        let mut sinks = vec![self.dotted("the sink's name")?];
        while self.take_symbol(&Token::Comma) {
            sinks.push(self.dotted("the name of another sink")?);
        }
        self.take_words(&["by", "name"]);
        self.flows_into.push(sinks);
        Ok(StreamingTable {
            name,
            sinks: Vec::new(),
            or_refresh: false,
            if_not_exists,
            columns: None,
            format: String::new(),
            partition_by: Vec::new(),
            location: None,
            options: said.options,
            properties: OptionMap::new(),
            output_mode: said.output_mode,
            comment: said.comment,
            query: self.query()?,
            place,
        })
    }
}

/// Gives each flow what its sinks say, of which the names are listed flow by flow.
///
/// # Errors
/// Invalid, with line and column: a flow whose sink is not in the file, or a sink without flows.
pub(super) fn into_sinks(pipeline: &mut Pipeline, names: &[Vec<String>], sql: &str) -> Result<()> {
    let sinks: Vec<Sink> = pipeline.sinks().cloned().collect();
    let is_table = |statement: &Statement| matches!(statement, Statement::Table(_));
    let tables = pipeline.statements.iter().filter(|it| is_table(it)).filter_map(Statement::name);
    let tables: Vec<String> = tables.map(str::to_lowercase).collect();
    let mut used: Vec<String> = Vec::new();
    let flows = pipeline.statements.iter_mut().filter_map(|statement| match statement {
        Statement::Flow(flow) => Some(flow),
        _ => None,
    });
    for (flow, names) in flows.zip(names) {
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let key = name.to_lowercase();
            let Some(sink) = sinks.iter().find(|sink| sink.name.to_lowercase() == key) else {
                return Err(no_sink(flow, name, &sinks, tables.contains(&key), sql));
            };
            if found.contains(sink) {
                let what = format!("the flow `{}` writes into `{name}` twice", flow.name);
                return Err(at(sql, flow.place, &what));
            }
            found.push(sink.clone());
            used.push(key);
        }
        write_into(flow, found);
    }
    match sinks.iter().find(|sink| !used.contains(&sink.name.to_lowercase())) {
        None => Ok(()),
        Some(sink) => {
            let what = format!(
                "nothing writes into the sink `{0}`; add CREATE FLOW … AS INSERT INTO {0} BY NAME \
                 SELECT …, or take the sink out",
                sink.name
            );
            Err(at(sql, sink.place, &what))
        }
    }
}

/// The flow writes as its first sink says; what the flow says itself goes first.
fn write_into(flow: &mut StreamingTable, sinks: Vec<Sink>) {
    flow.sinks = sinks;
    let Some(sink) = flow.sinks.first() else { return };
    flow.format.clone_from(&sink.format);
    flow.partition_by.clone_from(&sink.partition_by);
    flow.location.clone_from(&sink.location);
    flow.output_mode = flow.output_mode.or(sink.output_mode);
    let own = std::mem::replace(&mut flow.options, sink.options.clone());
    for (name, value) in own.iter() {
        flow.options.set(name, value);
    }
}

fn no_sink(
    flow: &StreamingTable,
    wanted: &str,
    sinks: &[Sink],
    is_table: bool,
    sql: &str,
) -> Error {
    let name = &flow.name;
    let what = if is_table {
        format!(
            "the flow `{name}` writes into `{wanted}`, a streaming table, which has a query of its \
             own; flows write into what CREATE SINK makes"
        )
    } else if sinks.is_empty() {
        format!(
            "the flow `{name}` writes into `{wanted}`, and the file has no CREATE SINK {wanted} \
             USING …"
        )
    } else {
        let all: Vec<String> = sinks.iter().map(|sink| format!("`{}`", sink.name)).collect();
        format!(
            "the flow `{name}` writes into `{wanted}`, which the file has no CREATE SINK for; its \
             sinks are {}",
            all.join(", ")
        )
    };
    at(sql, flow.place, &what)
}

fn at(sql: &str, place: Place, what: &str) -> Error {
    error_at(sql, Location { line: place.line, column: place.column }, what)
}
