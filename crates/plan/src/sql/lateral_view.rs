//! `FROM t LATERAL VIEW [OUTER] explode(t.a) v AS c`, as Hive and Spark have it.
//!
//! What stands before it becomes a query that also calls the generator. Names go on meaning what
//! they meant: the relations keep theirs, and know under which ones the planner finds them.

use super::catalog::object_name;
use super::generate::ROW;
use super::resolve::{Ctes, Names};
use super::rewrite::call;
use super::scope::{Column, Relation, Scope, ident};
use super::text::parse_query;
use crate::functions::nth_field;
use arrow::datatypes::{DataType, Field};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LateralView,
    ObjectName, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, Value,
};
use onefold_types::{Error, Result};
use std::collections::HashSet;
use std::sync::Arc;

impl Names<'_> {
    /// Puts a view into FROM; `scope` is what it sees, and then what is seen with it.
    pub(super) fn lateral_view(
        &self,
        select: &mut Select,
        scope: &mut Scope<'_>,
        view: LateralView,
        ctes: &Ctes,
    ) -> Result<()> {
        let within = format!("#lateral{}", scope.relations.len());
        let before = Scope { relations: scope.relations.clone(), parent: scope.parent };
        let mut taken = HashSet::new();
        let mut projection = Vec::new();
        for relation in &mut scope.relations {
            relation.columns.retain(|column| !column.hidden);
            for place in 0..relation.columns.len() {
                let Some(column) = relation.columns.get(place) else { continue };
                let inner = fresh(&column.name, &mut taken);
                let expr = relation.path(column);
                projection.push(SelectItem::ExprWithAlias { expr, alias: ident(&inner) });
                if let Some(column) = relation.columns.get_mut(place) {
                    column.inner = (inner != column.name).then_some(inner);
                    column.merged = None;
                }
            }
        }
        let Generated { call: generator, names: made, whole } =
            generated(view.lateral_view, view.outer, view.lateral_col_alias, &before)?;
        let inner: Vec<String> = made.iter().map(|name| fresh(name, &mut taken)).collect();
        let mut item = SelectItem::ExprWithAlias { expr: generator, alias: ident(ROW) };
        self.item(&mut item, &before, ctes)?;
        let mut columns: Vec<SelectItem> = projection.iter().filter_map(passed_on).collect();
        columns.extend(inner.iter().enumerate().map(|(place, name)| SelectItem::ExprWithAlias {
            expr: if whole { Expr::Identifier(ident(ROW)) } else { nth_of_row(place) },
            alias: ident(name),
        }));
        projection.push(item);
        for relation in &mut scope.relations {
            relation.within = Some(within.clone());
        }
        let seen = made.into_iter().zip(inner).map(|(name, inner)| {
            let mut column = Column::named(name);
            column.inner = (inner != column.name).then_some(inner);
            column
        });
        let mut relation = Relation::of(Some(object_name(&view.lateral_view_name)), seen.collect());
        relation.within = Some(within.clone());
        scope.relations.push(relation);
        let from = std::mem::take(&mut select.from);
        let rows = around(&within, projection, from)?;
        select.from = vec![around(&within, columns, vec![rows])?];
        Ok(())
    }
}

/// A column of the query below, under the name that it has there.
fn passed_on(item: &SelectItem) -> Option<SelectItem> {
    let SelectItem::ExprWithAlias { alias, .. } = item else { return None };
    Some(SelectItem::UnnamedExpr(Expr::Identifier(alias.clone())))
}

/// A field of the generator's row.
fn nth_of_row(place: usize) -> Expr {
    let place = Expr::Value(Value::Number(place.to_string(), false).into());
    call(nth_field::NAME, vec![Expr::Identifier(ident(ROW)), place])
}

/// A call of a generator.
struct Generated {
    call: Expr,
    /// The names of the columns that it makes.
    names: Vec<String>,
    /// The one column is the row, and no field of it.
    whole: bool,
}

/// The name, or one like it that is not taken.
fn fresh(name: &str, taken: &mut HashSet<String>) -> String {
    let mut fresh = name.to_owned();
    let mut again = 0_usize;
    while !taken.insert(fresh.to_lowercase()) {
        again += 1;
        fresh = format!("{name}#{again}");
    }
    fresh
}

/// `(SELECT projection FROM from) AS within`.
fn around(
    within: &str,
    projection: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
) -> Result<TableWithJoins> {
    let (mut query, _): (Box<Query>, _) = parse_query("SELECT 1")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = projection;
        select.from = from;
    }
    let alias = TableAlias { explicit: true, name: ident(within), columns: Vec::new(), at: None };
    let relation =
        TableFactor::Derived { lateral: false, subquery: query, alias: Some(alias), sample: None };
    Ok(TableWithJoins { relation, joins: Vec::new() })
}

/// The call, and the names of the columns that it makes.
fn generated(call: Expr, outer: bool, names: Vec<Ident>, scope: &Scope<'_>) -> Result<Generated> {
    let Expr::Function(mut call) = call else {
        return Err(Error::invalid(format!("LATERAL VIEW wants a function, and `{call}` is none")));
    };
    let function = object_name(&call.name).to_lowercase();
    let kind = function.strip_suffix("_outer").unwrap_or(&function).to_owned();
    if outer && ["explode", "posexplode", "inline"].contains(&function.as_str()) {
        call.name = ObjectName::from(vec![Ident::new(format!("{kind}_outer"))]);
    }
    let mut names: Vec<String> = names.into_iter().map(|name| name.value).collect();
    if names.is_empty() {
        names = own_names(&kind, first_type(&call, scope).as_ref());
    }
    if names.is_empty() {
        return Err(Error::invalid(format!(
            "LATERAL VIEW {function} needs names for its columns: write AS a, b behind it"
        )));
    }
    let whole = kind == "explode" && names.len() == 1;
    Ok(Generated { call: Expr::Function(call), names, whole })
}

fn first_type(call: &Function, scope: &Scope<'_>) -> Option<DataType> {
    let FunctionArguments::List(list) = &call.args else { return None };
    match list.args.first()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(call))) if gives_map(call) => {
            let entries = Field::new("entries", DataType::Null, false);
            Some(DataType::Map(Arc::new(entries), false))
        }
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => scope.type_of(expr),
        _ => None,
    }
}

const GIVE_MAPS: [&str; 9] = [
    "map",
    "map_concat",
    "map_filter",
    "map_from_arrays",
    "map_from_entries",
    "map_zip_with",
    "str_to_map",
    "transform_keys",
    "transform_values",
];

/// Whether a call is of a function that gives a map, whatever it is given.
fn gives_map(call: &Function) -> bool {
    let name = object_name(&call.name).to_lowercase();
    GIVE_MAPS.contains(&name.as_str())
}

/// The names that a generator gives to its columns itself, as far as its argument's type is known.
fn own_names(kind: &str, of: Option<&DataType>) -> Vec<String> {
    let names: &[&str] = match (kind, of) {
        ("explode", Some(DataType::Map(..))) => &["key", "value"],
        ("explode", _) => &["col"],
        ("posexplode", Some(DataType::Map(..))) => &["pos", "key", "value"],
        ("posexplode", _) => &["pos", "col"],
        ("inline", Some(DataType::List(element))) => match element.data_type() {
            DataType::Struct(fields) => {
                return fields.iter().map(|field| field.name().clone()).collect();
            }
            _ => &[],
        },
        _ => &[],
    };
    names.iter().map(|&name| name.to_owned()).collect()
}
