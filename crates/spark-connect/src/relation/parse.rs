//! Texts as rows: `spark.read.json(frame)` and `spark.read.csv(frame)`.

use super::columns::column;
use super::{Planner, built};
use crate::expression::{call, quoted, text_literal};
use crate::failure::{Failure, Outcome};
use crate::types;
use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::common::{Column, UnnestOptions};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::sql::sqlparser::ast;
use onefold_plan::functions::{CsvColumns, JsonColumns};
use onefold_plan::schema::{schema_ddl, type_name};
use onefold_plan::{sql, stream};
use spark_connect_proto::Parse;
use spark_connect_proto::parse::ParseFormat;
use std::collections::BTreeMap;

/// The column of texts while it is read.
const TEXT: &str = "#text";
/// The rows that a text has.
const ROWS: &str = "#rows";
/// The text itself, where it does not fit.
const CORRUPT: &str = "#corrupt";
/// Options that mean nothing where each row is one record.
const OF_FILES: [&str; 6] =
    ["multiline", "linesep", "encoding", "charset", "samplingratio", "enforceschema"];

/// Options of a reader, by their names in lower case.
struct Options {
    header: bool,
    infer: bool,
    separator: char,
    drop: bool,
    corrupt: String,
    /// Those of `from_json` and `from_csv`.
    rest: BTreeMap<String, String>,
}

impl Options {
    fn of(given: &std::collections::HashMap<String, String>) -> Self {
        let mut rest: BTreeMap<String, String> =
            given.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
        rest.retain(|name, _| !OF_FILES.contains(&name.as_str()));
        let yes = |it: Option<String>| it.is_some_and(|it| it.eq_ignore_ascii_case("true"));
        let header = yes(rest.remove("header"));
        let infer = yes(rest.remove("inferschema"));
        let drop = rest.get("mode").is_some_and(|mode| mode.eq_ignore_ascii_case("dropmalformed"));
        if drop {
            rest.remove("mode");
        }
        let separator = rest.get("sep").or_else(|| rest.get("delimiter"));
        let separator = separator.and_then(|it| it.chars().next()).unwrap_or(',');
        let corrupt = rest.get("columnnameofcorruptrecord").cloned();
        let corrupt = corrupt.unwrap_or_else(|| "_corrupt_record".to_owned());
        Options { header, infer, separator, drop, corrupt, rest }
    }

    /// Bad records are kept.
    fn permissive(&self) -> bool {
        let mode = self.rest.get("mode").map(String::as_str);
        !self.drop && mode.is_none_or(|mode| mode.eq_ignore_ascii_case("permissive"))
    }
}

impl Planner<'_> {
    pub(super) fn parse(&mut self, parse: &Parse) -> Outcome<LogicalPlan> {
        let input = self.input(parse.input.as_deref())?;
        let options = Options::of(&parse.options);
        let schema = match parse.schema.as_ref() {
            Some(schema) => Some(types::to_schema(schema)?.fields().clone()),
            None => None,
        };
        let lines = lines(input)?;
        match parse.format() {
            ParseFormat::Json => self.parse_json(lines, schema, &options),
            ParseFormat::Csv => self.parse_csv(lines, schema, &options),
            _ => Err(Failure::unsupported("reading XML")),
        }
    }

    /// Each text of the one column.
    fn each_text(&self, lines: &LogicalPlan, mut each: impl FnMut(&str)) -> Outcome<()> {
        let frame = self.session.engine.frame(lines.clone());
        Ok(frame.each_batch(|batch| {
            if let Some(texts) = batch.columns().first().and_then(|it| it.as_string_opt::<i32>()) {
                texts.iter().flatten().for_each(&mut each);
            }
        })?)
    }

    fn parse_json(
        &self,
        lines: LogicalPlan,
        schema: Option<Fields>,
        options: &Options,
    ) -> Outcome<LogicalPlan> {
        let fields = match schema {
            Some(fields) => fields,
            None => {
                let mut seen = JsonColumns::default();
                self.each_text(&lines, |text| seen.add(text))?;
                let mut fields: Vec<_> = seen.fields().iter().cloned().collect();
                if seen.malformed() && options.permissive() {
                    fields.push(Field::new(&options.corrupt, DataType::Utf8, true).into());
                    fields.sort_by(|one, other| one.name().cmp(other.name()));
                }
                fields.into()
            }
        };
        let rows = DataType::new_list(DataType::Struct(fields.clone()), true);
        let rows = self.read_with(&lines, "from_json", &type_name(&rows), options)?;
        self.rows(lines, rows, "from_json", &fields, options)
    }

    fn parse_csv(
        &self,
        lines: LogicalPlan,
        schema: Option<Fields>,
        options: &Options,
    ) -> Outcome<LogicalPlan> {
        let mut first = None;
        let fields = match schema {
            Some(fields) if !options.header => fields,
            known => {
                let mut seen = CsvColumns::new(options.separator, options.header);
                self.each_text(&lines, |line| {
                    seen.add(line);
                    first.get_or_insert_with(|| line.to_owned());
                })?;
                known.unwrap_or_else(|| seen.fields(options.infer))
            }
        };
        let lines = match first.filter(|_| options.header) {
            // As in Spark: every line that is equal to the header.
            Some(header) => {
                let other = Expr::Column(Column::from_name(TEXT)).not_eq(lit(header));
                built(LogicalPlanBuilder::from(lines).filter(other))?
            }
            None => lines,
        };
        let kept: Vec<_> =
            fields.iter().filter(|it| it.name() != &options.corrupt).cloned().collect();
        let row = self.read_with(&lines, "from_csv", &ddl(kept.into()), options)?;
        self.rows(lines, row, "from_csv", &fields, options)
    }

    /// A call of the function that reads one text.
    fn read_with(
        &self,
        lines: &LogicalPlan,
        function: &str,
        schema: &str,
        options: &Options,
    ) -> Outcome<Expr> {
        let mut arguments = vec![ast::Expr::Identifier(quoted(TEXT)), text_literal(schema)];
        if !options.rest.is_empty() {
            let texts = options.rest.iter().flat_map(|(name, value)| [name, value]);
            arguments.push(call("map", texts.map(|text| text_literal(text)).collect()));
        }
        let read = call(function, arguments);
        Ok(sql::expression_of(self.session.engine.context(), lines.schema(), read)?)
    }

    /// The rows of all texts, their fields as columns.
    fn rows(
        &self,
        lines: LogicalPlan,
        rows: Expr,
        function: &str,
        fields: &Fields,
        options: &Options,
    ) -> Outcome<LogicalPlan> {
        let mut columns = vec![rows.alias(ROWS)];
        let tells = fields.iter().any(|field| field.name() == &options.corrupt);
        if tells || options.drop {
            columns.push(self.corrupt(&lines, function, fields, options)?.alias(CORRUPT));
        }
        let mut plan = LogicalPlanBuilder::from(lines).project(columns)?;
        let first = plan.schema().fields().first().map(|it| it.data_type().clone());
        if matches!(first, Some(DataType::List(_))) {
            let unnest = UnnestOptions::new().with_preserve_nulls(true);
            plan = plan.unnest_column_with_options(Column::from_name(ROWS), unnest)?;
        }
        let corrupt = Expr::Column(Column::from_name(CORRUPT));
        if options.drop {
            plan = plan.filter(corrupt.clone().is_null())?;
        }
        let row = Expr::Column(Column::from_name(ROWS));
        let columns = fields.iter().map(|field| {
            let name = field.name().as_str();
            match name == options.corrupt {
                true => corrupt.clone().alias(name),
                false => get_field(row.clone(), name).alias(name),
            }
        });
        built(plan.project(columns.collect::<Vec<_>>()))
    }

    /// The text itself where it does not fit the columns, else NULL.
    fn corrupt(
        &self,
        lines: &LogicalPlan,
        function: &str,
        fields: &Fields,
        options: &Options,
    ) -> Outcome<Expr> {
        let mut fields: Vec<_> =
            fields.iter().filter(|it| it.name() != &options.corrupt).cloned().collect();
        fields.push(Field::new(&options.corrupt, DataType::Utf8, true).into());
        let row = self.read_with(lines, function, &ddl(fields.into()), options)?;
        Ok(get_field(row, options.corrupt.as_str()))
    }
}

fn ddl(fields: Fields) -> String {
    schema_ddl(&Schema::new(fields))
}

/// The one column of texts, without those that are blank.
fn lines(input: LogicalPlan) -> Outcome<LogicalPlan> {
    if stream::is_streaming(&input) {
        return Err(Failure::analysis(
            "a stream cannot be read as JSON or CSV that way; select from_json(value, schema)",
        ));
    }
    let columns: Vec<_> = input.schema().iter().filter(|(_, it)| !stream::hidden(it)).collect();
    let &[(qualifier, field)] = columns.as_slice() else {
        return Err(Failure::not_one_column(columns.len()));
    };
    let text =
        matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if !text {
        return Err(Failure::no_texts(&type_name(field.data_type())));
    }
    let texts = datafusion::logical_expr::cast(column(qualifier, field), DataType::Utf8);
    let there = Expr::Column(Column::from_name(TEXT));
    let there = datafusion::functions::expr_fn::btrim(vec![there, lit(" \t\r\n")]).not_eq(lit(""));
    built(LogicalPlanBuilder::from(input).project(vec![texts.alias(TEXT)])?.filter(there))
}
