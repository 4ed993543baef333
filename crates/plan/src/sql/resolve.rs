//! Finds what names mean, as Spark does: without case.
//!
//! DataFusion compares names exactly. So before planning, each name in the syntax tree is replaced
//! by the exact name of the column that it means in its scope, in backquotes. Wildcards over
//! tables with hidden columns are written out. Items without an alias get Spark's name.

use super::catalog::{Tables, object_name};
use super::generate::AND;
use super::lateral_alias::LateralAliases;
use super::naming::name_of;
use super::pivot::Pivot;
use super::scope::{
    Column, Relation, Scope, aliased, columns_of, exact, excluded, ident, relations_of, same,
};
use super::table_functions;
use super::text::TABLES_MAX;
use super::using;
use super::values;
use super::window_names;
use super::{repeated, rewrite};
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, GroupByWithModifier, Ident, Join, JoinOperator, ObjectName, ObjectNamePart,
    OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, SetOperator,
    TableFactor, Values, VisitMut, VisitorMut,
};
use onefold_types::{Error, Result};
use std::ops::ControlFlow;

/// Resolves a whole query and gives its columns.
pub(super) fn query(query: &mut Query, tables: &Tables) -> Result<Vec<Column>> {
    Names { tables }.query(query, None, &Vec::new())
}

/// Resolves an expression over one schema.
pub(super) fn expression(expr: &mut Expr, schema: &DFSchema) -> Result<()> {
    let scope = Scope { relations: relations_of(schema), parent: None };
    Names { tables: &Tables::default() }.walk(expr, &scope, &Vec::new())
}

/// Resolves an item of a projection over one schema: expressions with the names that they get.
pub(super) fn select_item(
    item: &mut SelectItem,
    schema: &DFSchema,
) -> Result<Vec<(Expr, Option<String>)>> {
    let scope = Scope { relations: relations_of(schema), parent: None };
    let names = Names { tables: &Tables::default() };
    let mut items = Vec::new();
    for mut item in scope.expand(item.clone(), true)? {
        names.item(&mut item, &scope, &Vec::new())?;
        match item {
            SelectItem::ExprWithAlias { expr, alias } => items.push((expr, Some(alias.value))),
            SelectItem::UnnamedExpr(expr) => items.push((expr, None)),
            other => return Err(Error::invalid(format!("`{other}` is not supported here"))),
        }
    }
    Ok(items)
}

pub(super) type Ctes = Vec<(String, Vec<Column>)>;

pub(super) struct Names<'t> {
    tables: &'t Tables,
}

impl Names<'_> {
    /// Resolves a query and gives its columns.
    fn query(
        &self,
        query: &mut Query,
        parent: Option<&Scope<'_>>,
        ctes: &Ctes,
    ) -> Result<Vec<Column>> {
        let mut ctes = ctes.clone();
        let with = query.with.as_ref().map_or(0, |with| with.cte_tables.len());
        if ctes.len() + with > TABLES_MAX {
            return Err(Error::invalid(format!("more than {TABLES_MAX} queries in WITH")));
        }
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                let columns = self.query(&mut cte.query, parent, &ctes)?;
                ctes.push((cte.alias.name.value.clone(), aliased(&cte.alias, columns)));
            }
        }
        let (columns, mut relations) = self.body(&mut query.body, parent, &ctes)?;
        if let Some(order_by) = &mut query.order_by {
            by_all(order_by, &columns);
            relations.insert(0, Relation::of(None, columns.clone()));
            let scope = Scope { relations, parent };
            self.walk(order_by, &scope, &ctes)?;
        }
        Ok(columns)
    }

    /// Resolves the body of a query: its columns, and the relations that ORDER BY sees.
    fn body(
        &self,
        body: &mut SetExpr,
        parent: Option<&Scope<'_>>,
        ctes: &Ctes,
    ) -> Result<(Vec<Column>, Vec<Relation>)> {
        match body {
            SetExpr::Select(select) => self.select(select, parent, ctes),
            SetExpr::Query(query) => Ok((self.query(query, parent, ctes)?, Vec::new())),
            SetExpr::SetOperation { left, right, op, .. } => {
                if *op == SetOperator::Minus {
                    *op = SetOperator::Except;
                }
                let (columns, _) = self.body(left, parent, ctes)?;
                self.body(right, parent, ctes)?;
                Ok((columns, Vec::new()))
            }
            SetExpr::Values(values) => {
                let scope = Scope { relations: Vec::new(), parent };
                let width = values.rows.first().map_or(0, |row| row.len());
                self.walk(values, &scope, ctes)?;
                values::typed(values, width);
                *body = values::named(body, width)?;
                let columns = (1..=width).map(|place| Column::named(format!("col{place}")));
                Ok((columns.collect(), Vec::new()))
            }
            other => Err(Error::invalid(format!("`{other}` is not a query"))),
        }
    }

    fn select(
        &self,
        select: &mut Select,
        parent: Option<&Scope<'_>>,
        ctes: &Ctes,
    ) -> Result<(Vec<Column>, Vec<Relation>)> {
        if select.from.len() > TABLES_MAX {
            return Err(Error::invalid(format!("more than {TABLES_MAX} tables in FROM")));
        }
        let mut scope = Scope { relations: Vec::new(), parent };
        for from in &mut select.from {
            let found = self.relation(&mut from.relation, &scope, ctes)?;
            scope.relations.extend(found);
            for join in &mut from.joins {
                self.join(join, &mut scope, ctes)?;
            }
        }
        for view in std::mem::take(&mut select.lateral_views) {
            self.lateral_view(select, &mut scope, view, ctes)?;
        }
        window_names::put_in(select, &scope);
        let mut projection = Vec::with_capacity(select.projection.len());
        for item in std::mem::take(&mut select.projection) {
            projection.extend(scope.expand(item, false)?);
        }
        let mut columns = Vec::new();
        let mut aliases = LateralAliases::default();
        for item in &mut projection {
            aliases.put_in(item, &scope)?;
            columns.extend(self.item(item, &scope, ctes)?);
        }
        repeated::told_apart(&mut projection, &mut columns);
        if let Some(selection) = &mut select.selection {
            self.walk(selection, &scope, ctes)?;
        }
        // GROUP BY, HAVING and the like see the aliases too, after the columns.
        scope.relations.push(Relation::of(None, columns.clone()));
        several_levels(&mut select.group_by);
        self.walk(&mut select.group_by, &scope, ctes)?;
        self.walk(&mut select.having, &scope, ctes)?;
        self.walk(&mut select.qualify, &scope, ctes)?;
        self.walk(&mut select.sort_by, &scope, ctes)?;
        self.walk(&mut select.distribute_by, &scope, ctes)?;
        self.walk(&mut select.cluster_by, &scope, ctes)?;
        scope.relations.pop();
        select.projection = projection;
        Ok((columns, scope.relations))
    }

    /// Resolves an item, gives it a name, and says which columns it makes.
    pub(super) fn item(
        &self,
        item: &mut SelectItem,
        scope: &Scope<'_>,
        ctes: &Ctes,
    ) -> Result<Vec<Column>> {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = name_of(expr);
                let plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                let (known, data_type) = (scope.shown_name(expr), scope.type_of(expr));
                self.walk(expr, scope, ctes)?;
                rewrite::top_level(expr);
                let resolved = known.or_else(|| plain.then(|| name_of(expr)));
                let mut column = Column::named(resolved.unwrap_or(name));
                column.data_type = data_type;
                let alias = ident(&column.name);
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                Ok(vec![column])
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let data_type = scope.type_of(expr);
                self.walk(expr, scope, ctes)?;
                rewrite::top_level(expr);
                *alias = exact(&alias.value, alias);
                let mut column = Column::named(alias.value.clone());
                column.data_type = data_type;
                Ok(vec![column])
            }
            SelectItem::Wildcard(options) => {
                if let Some(except) = &mut options.opt_except {
                    scope.fix_identifier(&mut except.first_element);
                    for name in &mut except.additional_elements {
                        scope.fix_identifier(name);
                    }
                }
                let excluded = excluded(options)?;
                Ok(scope
                    .relations
                    .iter()
                    .flat_map(|relation| relation.columns.iter().cloned())
                    .filter(|column| !excluded.iter().any(|name| same(name, &column.name)))
                    .collect())
            }
            SelectItem::ExprWithAliases { expr, aliases } => {
                let names: Vec<&str> = aliases.iter().map(|name| name.value.as_str()).collect();
                let alias = ident(&names.join(&AND.to_string()));
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                self.item(item, scope, ctes)
            }
            SelectItem::QualifiedWildcard(..) => {
                Err(Error::invalid(format!("`{item}` is not supported")))
            }
        }
    }

    /// Joins a relation to those before it, whose scope then is the join's.
    fn join(&self, join: &mut Join, scope: &mut Scope<'_>, ctes: &Ctes) -> Result<()> {
        let found = self.relation(&mut join.relation, scope, ctes)?;
        let operator = &mut join.join_operator;
        let left = std::mem::take(&mut scope.relations);
        let before = left.len();
        scope.relations = using::joined(operator, left, found)?;
        self.walk(operator, scope, ctes)?;
        let kept = !matches!(
            operator,
            JoinOperator::LeftSemi(_)
                | JoinOperator::Semi(_)
                | JoinOperator::LeftAnti(_)
                | JoinOperator::Anti(_)
        );
        if !kept {
            scope.relations.truncate(before);
        }
        Ok(())
    }

    fn relation(
        &self,
        factor: &mut TableFactor,
        before: &Scope<'_>,
        ctes: &Ctes,
    ) -> Result<Vec<Relation>> {
        match factor {
            TableFactor::Table { sample: Some(_), .. } => Err(Error::invalid(
                "TABLESAMPLE is not supported; take a sample of the frame: \
                 spark.table(\"t\").sample(0.1)",
            )),
            TableFactor::Table { name, args: Some(_), .. }
                if object_name(name) == table_functions::NUMBERS =>
            {
                Ok(vec![Relation::of(None, vec![Column::named("value")])])
            }
            TableFactor::Table { name, alias, args: Some(args), .. } => {
                *factor = table_functions::table(&object_name(name), alias.as_ref(), &args.args)?;
                self.relation(factor, before, ctes)
            }
            TableFactor::Table { name, alias, args: None, .. } => {
                let key = object_name(name);
                let columns = ctes
                    .iter()
                    .rev()
                    .find(|(known, _)| same(known, &key))
                    .map(|(known, columns)| (known.clone(), columns.clone()));
                let columns = match columns {
                    Some((known, columns)) => {
                        *name = ObjectName::from(vec![ident(&known)]);
                        columns
                    }
                    None => match self.tables.get(&key) {
                        Some(table) => columns_of(&table.schema()),
                        None => {
                            return Err(Error::invalid(format!(
                                "there is no table or view `{key}`"
                            )));
                        }
                    },
                };
                if let Some(alias) = alias {
                    let columns = aliased(alias, columns);
                    return Ok(vec![Relation::of(Some(alias.name.value.clone()), columns)]);
                }
                let own = name.0.last().and_then(ObjectNamePart::as_ident);
                Ok(vec![Relation::of(own.map(|own| own.value.clone()), columns)])
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                let parent = lateral.then_some(before).or(before.parent);
                let columns = self.query(subquery, parent, ctes)?;
                let (name, columns) = match alias {
                    Some(alias) => (Some(alias.name.value.clone()), aliased(alias, columns)),
                    None => (None, columns),
                };
                Ok(vec![Relation::of(name, columns)])
            }
            TableFactor::Pivot {
                table,
                aggregate_functions,
                value_column,
                value_source,
                alias,
                ..
            } => {
                let inner = self.relation(&mut table.as_ref().clone(), before, ctes)?;
                let pivot = Pivot {
                    table: table.as_ref(),
                    aggregates: aggregate_functions,
                    column: value_column,
                    values: value_source,
                    alias: alias.as_ref(),
                };
                *factor = pivot.as_query(&inner)?;
                self.relation(factor, before, ctes)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                let mut scope = Scope { relations: Vec::new(), parent: before.parent };
                let found = self.relation(&mut table_with_joins.relation, &scope, ctes)?;
                scope.relations.extend(found);
                for join in &mut table_with_joins.joins {
                    self.join(join, &mut scope, ctes)?;
                }
                Ok(scope.relations)
            }
            other => {
                self.walk(other, before, ctes)?;
                let alias = match other {
                    TableFactor::UNNEST { alias, .. } | TableFactor::Function { alias, .. } => {
                        alias.as_ref()
                    }
                    _ => None,
                };
                let columns = alias.map(|alias| aliased(alias, Vec::new())).unwrap_or_default();
                Ok(vec![Relation::of(alias.map(|alias| alias.name.value.clone()), columns)])
            }
        }
    }

    /// Resolves all expressions of a piece of syntax in one scope.
    pub(super) fn walk<T: VisitMut>(
        &self,
        part: &mut T,
        scope: &Scope<'_>,
        ctes: &Ctes,
    ) -> Result<()> {
        let mut walk = Walk { names: self, scope, ctes, held: Vec::new(), parameters: Vec::new() };
        match part.visit(&mut walk) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

/// `ORDER BY ALL` is by each column, the first one first.
fn by_all(order_by: &mut OrderBy, columns: &[Column]) {
    let OrderByKind::All(options) = &order_by.kind else { return };
    let keys = columns.iter().map(|column| OrderByExpr {
        expr: Expr::Identifier(ident(&column.name)),
        options: *options,
        with_fill: None,
    });
    order_by.kind = OrderByKind::Expressions(keys.collect());
}

/// `GROUP BY a, b WITH ROLLUP` is `GROUP BY ROLLUP (a, b)`.
fn several_levels(group_by: &mut GroupByExpr) {
    let GroupByExpr::Expressions(groups, modifiers) = group_by else { return };
    let [modifier] = modifiers.as_slice() else { return };
    let sets = groups.drain(..).map(|group| vec![group]).collect();
    let whole = match modifier {
        GroupByWithModifier::Rollup => Expr::Rollup(sets),
        GroupByWithModifier::Cube => Expr::Cube(sets),
        _ => {
            *groups = sets.into_iter().flatten().collect();
            return;
        }
    };
    modifiers.clear();
    groups.push(whole);
}

struct Walk<'a> {
    names: &'a Names<'a>,
    scope: &'a Scope<'a>,
    ctes: &'a Ctes,
    /// Subqueries that are resolved already and stay out of this walk.
    held: Vec<Query>,
    /// The parameters of the lambdas around, the innermost last.
    parameters: Vec<Vec<String>>,
}

impl Walk<'_> {
    /// The parameter of a lambda that a name means: those that are nearer go before columns.
    fn parameter(&self, name: &Ident) -> Option<Ident> {
        let mut names = self.parameters.iter().rev().flatten();
        names.find(|known| same(known, &name.value)).map(|known| exact(known, name))
    }
}

impl VisitorMut for Walk<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let mut own = std::mem::replace(query, nothing());
        let resolved = self.names.query(&mut own, Some(self.scope), self.ctes);
        self.held.push(own);
        match resolved {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Some(own) = self.held.pop() {
            *query = own;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        rewrite::field_access(expr);
        match expr {
            Expr::Lambda(lambda) => {
                let names = lambda.params.iter().map(|parameter| parameter.name.value.clone());
                self.parameters.push(names.collect());
            }
            Expr::Identifier(name) => match self.parameter(name) {
                Some(parameter) => *name = parameter,
                None => match self.scope.merged(name) {
                    Some(merged) => *expr = merged,
                    None => self.scope.fix_identifier(name),
                },
            },
            Expr::CompoundIdentifier(path) => {
                match path.first().and_then(|first| self.parameter(first)) {
                    Some(root) => {
                        let root = Expr::Identifier(root);
                        *expr = rewrite::fields_of(root, path.get(1..).unwrap_or(&[]));
                    }
                    None => match self.scope.merged_root(path) {
                        Some((root, fields)) => *expr = rewrite::fields_of(root, fields),
                        None => self.scope.fix_path(path),
                    },
                }
            }
            Expr::Function(call) => {
                if let Err(error) = self.scope.expand_arguments(call) {
                    return ControlFlow::Break(error);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if matches!(expr, Expr::Lambda(_)) {
            self.parameters.pop();
        }
        match rewrite::expression(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// A query to stand in while the own one is away.
fn nothing() -> Query {
    let values = Values { explicit_row: false, value_keyword: false, rows: Vec::new() };
    Query {
        with: None,
        body: Box::new(SetExpr::Values(values)),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}
