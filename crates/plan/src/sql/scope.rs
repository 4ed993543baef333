//! What names mean in one place of a query: its tables, their columns, and the scope around it.

use super::catalog::object_name;
use crate::stream::hidden;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectNamePart, SelectItem,
    SelectItemQualifiedWildcardKind, TableAlias, WildcardAdditionalOptions,
};
use onefold_types::{Error, Result};

#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) data_type: Option<DataType>,
    pub(super) hidden: bool,
    /// Its name in the query that a `LATERAL VIEW` put around its table, if another one.
    pub(super) inner: Option<String>,
    /// What it is, where it is the key of a join with USING.
    pub(super) merged: Option<Box<Expr>>,
    /// A key of a join with USING stands for it in a wildcard.
    pub(super) covered: bool,
}

impl Column {
    pub(super) fn of(field: &Field) -> Self {
        Column {
            data_type: Some(field.data_type().clone()),
            hidden: hidden(field),
            ..Column::named(field.name())
        }
    }

    pub(super) fn named(name: impl Into<String>) -> Self {
        Column {
            name: name.into(),
            data_type: None,
            hidden: false,
            inner: None,
            merged: None,
            covered: false,
        }
    }

    /// Whether `*` shows it.
    pub(super) fn shown(&self) -> bool {
        !self.hidden && !self.covered
    }

    /// The name that the planner knows.
    pub(super) fn planned(&self) -> &str {
        self.inner.as_deref().unwrap_or(&self.name)
    }
}

pub(super) fn columns_of(schema: &Schema) -> Vec<Column> {
    schema.fields().iter().map(|field| Column::of(field)).collect()
}

#[derive(Debug, Clone)]
pub(super) struct Relation {
    pub(super) name: Option<String>,
    pub(super) columns: Vec<Column>,
    /// The query that a `LATERAL VIEW` put around it.
    pub(super) within: Option<String>,
}

pub(super) struct Scope<'p> {
    pub(super) relations: Vec<Relation>,
    pub(super) parent: Option<&'p Scope<'p>>,
}

pub(super) fn same(left: &str, right: &str) -> bool {
    left == right || left.to_lowercase() == right.to_lowercase()
}

/// A name in backquotes, at the place of the one that it replaces.
pub(super) fn exact(name: &str, place: &Ident) -> Ident {
    Ident::with_quote_and_span('`', place.span, name)
}

pub(super) fn ident(name: &str) -> Ident {
    Ident::with_quote('`', name)
}

impl Scope<'_> {
    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        let columns = || self.relations.iter().flat_map(|relation| &relation.columns);
        columns()
            .find(|column| column.name == name)
            .or_else(|| columns().find(|column| same(&column.name, name)))
            .or_else(|| self.parent.and_then(|parent| parent.column(name)))
    }

    pub(super) fn relation(&self, name: &str) -> Option<&Relation> {
        let named =
            |relation: &&Relation| relation.name.as_deref().is_some_and(|known| same(known, name));
        self.relations
            .iter()
            .find(named)
            .or_else(|| self.parent.and_then(|parent| parent.relation(name)))
    }

    pub(super) fn fix_identifier(&self, name: &mut Ident) {
        if let Some(column) = self.column(&name.value) {
            *name = exact(column.planned(), name);
        }
    }

    /// Whether a table here has such a column, and not one of a query around.
    pub(super) fn has_own(&self, name: &str) -> bool {
        let mut columns = self.relations.iter().flat_map(|relation| &relation.columns);
        columns.any(|column| same(&column.name, name))
    }

    /// The name of the column that an item is, if the planner knows it by another one.
    pub(super) fn shown_name(&self, item: &Expr) -> Option<String> {
        let column = match item {
            Expr::Identifier(name) => self.column(&name.value)?,
            Expr::CompoundIdentifier(path) => match path.as_slice() {
                [table, name] => self.relation(&table.value)?.column(&name.value)?,
                _ => return None,
            },
            _ => return None,
        };
        let other = column.inner.is_some() || column.merged.is_some();
        other.then(|| column.name.clone())
    }

    /// What a name means that is the key of a join with USING: no table has such a column.
    pub(super) fn merged(&self, name: &Ident) -> Option<Expr> {
        self.column(&name.value)?.merged.as_deref().cloned()
    }

    /// As [`Scope::merged`] for `key.field…`, with the fields.
    pub(super) fn merged_root<'i>(&self, path: &'i [Ident]) -> Option<(Expr, &'i [Ident])> {
        let (first, fields) = path.split_first()?;
        match self.relation(&first.value) {
            Some(_) => None,
            None => Some((self.merged(first)?, fields)),
        }
    }

    /// `table.column.field…` or `column.field…`.
    pub(super) fn fix_path(&self, path: &mut [Ident]) {
        let Some((first, rest)) = path.split_first_mut() else { return };
        if let Some(relation) = self.relation(&first.value)
            && let Some(name) = relation.planned()
            && let Some((second, fields)) = rest.split_first_mut()
            && let Some(column) = relation.column(&second.value)
        {
            *first = exact(name, first);
            *second = exact(column.planned(), second);
            fix_fields(column.data_type.as_ref(), fields);
            return;
        }
        if let Some(column) = self.column(&first.value) {
            *first = exact(column.planned(), first);
            fix_fields(column.data_type.as_ref(), rest);
        }
    }

    /// Writes a wildcard out where `always`, a hidden column or a `LATERAL VIEW` asks for it.
    pub(super) fn expand(&self, item: SelectItem, always: bool) -> Result<Vec<SelectItem>> {
        let any_hidden = self.relations.iter().any(|relation| {
            let other = |column: &Column| !column.shown() || column.inner.is_some();
            relation.within.is_some() || relation.columns.iter().any(other)
        });
        match &item {
            SelectItem::Wildcard(options) if always || any_hidden => {
                let excluded = excluded(options)?;
                let items = self.relations.iter();
                let items = items.flat_map(|it| it.items(&excluded, |column| !column.covered));
                Ok(items.collect())
            }
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) => {
                let excluded = excluded(options)?;
                let [ObjectNamePart::Identifier(first)] = name.0.as_slice() else {
                    return Ok(vec![item]);
                };
                if let Some(relation) = self.relation(&first.value) {
                    return Ok(relation.items(&excluded, |_| true));
                }
                // `s.*` of a struct column gives its fields.
                match self.column(&first.value) {
                    Some(column @ Column { data_type: Some(DataType::Struct(fields)), .. }) => {
                        let name = column.planned();
                        Ok(fields
                            .iter()
                            .filter(|field| !excluded.iter().any(|name| same(name, field.name())))
                            .map(|field| SelectItem::ExprWithAlias {
                                expr: Expr::CompoundIdentifier(vec![
                                    ident(name),
                                    ident(field.name()),
                                ]),
                                alias: ident(field.name()),
                            })
                            .collect())
                    }
                    _ => Ok(vec![item]),
                }
            }
            _ => Ok(vec![item]),
        }
    }

    /// Writes wildcards among the arguments of a call out, as in `struct(*)`; `count(*)` counts rows.
    pub(super) fn expand_arguments(&self, call: &mut ast::Function) -> Result<()> {
        let counts = object_name(&call.name).eq_ignore_ascii_case("count");
        let FunctionArguments::List(list) = &mut call.args else { return Ok(()) };
        let mut arguments = Vec::with_capacity(list.args.len());
        for argument in std::mem::take(&mut list.args) {
            match wildcard(&argument).filter(|_| !counts) {
                Some(item) => {
                    arguments.extend(self.expand(item, true)?.into_iter().map(as_argument))
                }
                None => arguments.push(argument),
            }
        }
        list.args = arguments;
        Ok(())
    }
}

/// The item that a wildcard in the place of an argument would be.
fn wildcard(argument: &FunctionArg) -> Option<SelectItem> {
    let FunctionArg::Unnamed(argument) = argument else { return None };
    match argument {
        FunctionArgExpr::Wildcard => {
            Some(SelectItem::Wildcard(WildcardAdditionalOptions::default()))
        }
        FunctionArgExpr::WildcardWithOptions(options) => {
            Some(SelectItem::Wildcard(options.clone()))
        }
        FunctionArgExpr::QualifiedWildcard(name) => Some(SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(name.clone()),
            WildcardAdditionalOptions::default(),
        )),
        _ => None,
    }
}

fn as_argument(item: SelectItem) -> FunctionArg {
    FunctionArg::Unnamed(match item {
        SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => {
            FunctionArgExpr::Expr(expr)
        }
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            FunctionArgExpr::QualifiedWildcard(name)
        }
        _ => FunctionArgExpr::Wildcard,
    })
}

impl Relation {
    pub(super) fn of(name: Option<String>, columns: Vec<Column>) -> Self {
        Relation { name, columns, within: None }
    }

    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| same(&column.name, name))
    }

    /// The qualifier that the planner knows.
    fn planned(&self) -> Option<&str> {
        self.within.as_deref().or(self.name.as_deref())
    }

    /// A column as the planner knows it.
    pub(super) fn path(&self, column: &Column) -> Expr {
        if let Some(merged) = &column.merged {
            return merged.as_ref().clone();
        }
        let name = ident(column.planned());
        match self.planned() {
            Some(relation) => Expr::CompoundIdentifier(vec![ident(relation), name]),
            None => Expr::Identifier(name),
        }
    }

    fn items(&self, excluded: &[String], wanted: impl Fn(&Column) -> bool) -> Vec<SelectItem> {
        self.columns
            .iter()
            .filter(|column| !column.hidden && wanted(column))
            .filter(|column| !excluded.iter().any(|name| same(name, &column.name)))
            .map(|column| SelectItem::ExprWithAlias {
                expr: self.path(column),
                alias: ident(&column.name),
            })
            .collect()
    }
}

pub(super) fn fix_fields(data_type: Option<&DataType>, path: &mut [Ident]) {
    let mut data_type = data_type;
    for part in path {
        let Some(DataType::Struct(fields)) = data_type else { return };
        let Some(field) = fields.iter().find(|field| same(field.name(), &part.value)) else {
            return;
        };
        *part = exact(field.name(), part);
        data_type = Some(field.data_type());
    }
}

/// The columns in `* EXCEPT (a, b)`.
pub(super) fn excluded(options: &WildcardAdditionalOptions) -> Result<Vec<String>> {
    if options.opt_replace.is_some() || options.opt_rename.is_some() || options.opt_ilike.is_some()
    {
        return Err(Error::invalid(
            "`*` takes EXCEPT (…) only; write replaced or renamed columns out",
        ));
    }
    let mut names = Vec::new();
    if let Some(except) = &options.opt_except {
        names.push(except.first_element.value.clone());
        names.extend(except.additional_elements.iter().map(|name| name.value.clone()));
    }
    match &options.opt_exclude {
        Some(ast::ExcludeSelectItem::Single(name)) => names.push(object_name(name)),
        Some(ast::ExcludeSelectItem::Multiple(more)) => names.extend(more.iter().map(object_name)),
        None => {}
    }
    Ok(names)
}

impl Scope<'_> {
    /// The type of a plain column, so that its fields can be found further out.
    pub(super) fn type_of(&self, expr: &Expr) -> Option<DataType> {
        match expr {
            Expr::Identifier(name) => self.column(&name.value)?.data_type.clone(),
            Expr::CompoundIdentifier(path) => {
                let (first, rest) = path.split_first()?;
                let from_relation = self.relation(&first.value).and_then(|relation| {
                    let (second, rest) = rest.split_first()?;
                    Some((relation.column(&second.value)?, rest))
                });
                let (column, rest) = match from_relation {
                    Some(found) => found,
                    None => (self.column(&first.value)?, rest),
                };
                let mut data_type = column.data_type.clone()?;
                for part in rest {
                    let DataType::Struct(fields) = data_type else { return None };
                    let field = fields.iter().find(|field| same(field.name(), &part.value))?;
                    data_type = field.data_type().clone();
                }
                Some(data_type)
            }
            _ => None,
        }
    }
}

pub(super) fn relations_of(schema: &DFSchema) -> Vec<Relation> {
    let mut relations: Vec<Relation> = Vec::new();
    for (qualifier, field) in schema.iter() {
        let name = qualifier.map(|qualifier| qualifier.table().to_owned());
        match relations.last_mut() {
            Some(last) if last.name == name => last.columns.push(Column::of(field)),
            _ => relations.push(Relation::of(name, vec![Column::of(field)])),
        }
    }
    relations
}

/// The columns under the alias's own names.
pub(super) fn aliased(alias: &TableAlias, mut columns: Vec<Column>) -> Vec<Column> {
    for (place, name) in alias.columns.iter().enumerate() {
        match columns.get_mut(place) {
            Some(column) => {
                column.name = name.name.value.clone();
                column.inner = None;
            }
            None => columns.push(Column::named(name.name.value.clone())),
        }
    }
    columns
}
