//! `DESCRIBE` and `SHOW CREATE TABLE`: what a table is.

use arrow::datatypes::{Field, Schema};
use onefold_engine::TableDefinition;
use onefold_plan::schema::{COMMENT, schema_ddl, type_name};

/// The columns of `DESCRIBE`.
pub(super) const COLUMNS: [&str; 3] = ["col_name", "data_type", "comment"];

type Row = Vec<Option<String>>;

fn text(it: &str) -> Option<String> {
    Some(it.to_owned())
}

fn column(field: &Field) -> Row {
    let kind = type_name(field.data_type()).to_lowercase();
    vec![Some(field.name().clone()), Some(kind), field.metadata().get(COMMENT).cloned()]
}

/// The columns, then those that folders or clusters are made of, then what else is known if asked.
pub(super) fn rows(
    schema: &Schema,
    name: &str,
    table: Option<&TableDefinition>,
    extended: bool,
) -> Vec<Row> {
    let mut rows: Vec<Row> = schema.fields().iter().map(|field| column(field)).collect();
    let Some(table) = table else { return rows };
    let parts = [
        ("# Partition Information", &table.partition_by),
        ("# Clustering Information", &table.cluster_by),
    ];
    for (title, names) in parts {
        if names.is_empty() {
            continue;
        }
        rows.push(vec![text(title), text(""), text("")]);
        rows.push(vec![text("# col_name"), text("data_type"), text("comment")]);
        for name in names {
            let field = schema.fields().iter().find(|it| it.name().eq_ignore_ascii_case(name));
            rows.extend(field.map(|field| column(field)));
        }
    }
    if extended {
        rows.push(vec![text(""), text(""), text("")]);
        rows.push(vec![text("# Detailed Table Information"), text(""), text("")]);
        let location = table.location.as_deref();
        let facts = [
            ("Catalog", "spark_catalog"),
            ("Database", "default"),
            ("Table", name.rsplit('.').next().unwrap_or(name)),
            ("Type", if location.is_some() { "EXTERNAL" } else { "MANAGED" }),
            ("Provider", table.format.as_str()),
        ];
        rows.extend(facts.map(|(fact, value)| vec![text(fact), text(value), text("")]));
        rows.extend(location.map(|location| vec![text("Location"), text(location), text("")]));
    }
    rows
}

/// What stands for a value that may be a secret, as in Spark.
const REDACTED: &str = "*********(redacted)";

/// Whether an option's name says that its value is not to be shown.
fn secret(name: &str) -> bool {
    let name = name.to_lowercase();
    ["url", "secret", "password", "token", "accesskey", "access.key"]
        .iter()
        .any(|word| name.contains(word))
}

/// The statement that makes such a table; values that may be secrets are not told.
pub(super) fn statement(name: &str, table: &TableDefinition) -> String {
    let columns = match onefold_plan::schema::parse_schema(&table.schema) {
        Ok(schema) => {
            let one = |field: &arrow::datatypes::FieldRef| {
                format!("  {}", schema_ddl(&Schema::new(vec![field.as_ref().clone()])))
            };
            schema.fields().iter().map(one).collect::<Vec<_>>().join(",\n")
        }
        Err(_) => format!("  {}", table.schema),
    };
    let mut text = format!("CREATE TABLE {name} (\n{columns})\nUSING {}\n", table.format);
    let quoted = |value: &str| value.replace('\\', "\\\\").replace('\'', "\\'");
    if !table.options.is_empty() {
        let options = table.options.iter();
        let options = options.map(|(key, value)| {
            let value = if secret(key) { REDACTED } else { value };
            format!("  '{}' = '{}'", quoted(key), quoted(value))
        });
        text += &format!("OPTIONS (\n{})\n", options.collect::<Vec<_>>().join(",\n"));
    }
    for (clause, names) in
        [("PARTITIONED BY", &table.partition_by), ("CLUSTER BY", &table.cluster_by)]
    {
        if !names.is_empty() {
            text += &format!("{clause} ({})\n", names.join(", "));
        }
    }
    if let Some(location) = &table.location {
        text += &format!("LOCATION '{}'\n", quoted(location));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::statement;
    use onefold_engine::TableDefinition;

    #[test]
    fn a_table_is_written_as_the_statement_that_makes_it() {
        let table = TableDefinition {
            format: "csv".to_owned(),
            schema: "a INT NOT NULL, `b c` STRING COMMENT 'it\\'s'".to_owned(),
            options: [("sep", "'"), ("userPassword", "hunter2")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            partition_by: vec!["a".to_owned()],
            cluster_by: Vec::new(),
            location: Some("/x".to_owned()),
        };
        let wanted = "CREATE TABLE t (\n  a INT NOT NULL,\n  `b c` STRING COMMENT 'it\\'s')\nUSING \
                      csv\nOPTIONS (\n  'sep' = '\\'',\n  'userPassword' = '*********(redacted)')\nPARTITIONED BY (a)\nLOCATION '/x'\n";
        assert_eq!(statement("t", &table), wanted);
    }
}
