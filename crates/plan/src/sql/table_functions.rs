//! Functions that stand in FROM: `range(…)`, `explode(…)`.

use super::scope::ident;
use super::text;
use datafusion::sql::sqlparser::ast::{FunctionArg, TableAlias, TableFactor};
use onefold_types::{Error, Result};

/// What stands for `range` in the planner: numbers in a column `value`.
pub(super) const NUMBERS: &str = "#numbers";

/// The subquery that gives the rows of a function.
pub(super) fn table(
    name: &str,
    alias: Option<&TableAlias>,
    arguments: &[FunctionArg],
) -> Result<TableFactor> {
    let name = name.to_lowercase();
    // How many partitions there are (the last of four arguments) is the engine's business.
    let arguments: Vec<String> = arguments.iter().take(3).map(ToString::to_string).collect();
    let arguments = arguments.join(", ");
    let query = match name.as_str() {
        "range" => format!("SELECT value AS id FROM `{NUMBERS}`({arguments})"),
        "explode" | "explode_outer" => format!("SELECT {name}({arguments}) AS col"),
        _ => return Err(Error::invalid(format!("there is no table function `{name}`"))),
    };
    let (subquery, _) = text::parse_query(&query)?;
    let own = TableAlias { explicit: true, name: ident(&name), columns: Vec::new(), at: None };
    Ok(TableFactor::Derived {
        lateral: false,
        subquery,
        alias: Some(alias.cloned().unwrap_or(own)),
        sample: None,
    })
}
