//! Expressions: Spark Connect's messages to the syntax tree of Spark's SQL.
//!
//! From there on they go the way of SQL texts: names are found without case, operators, casts and
//! functions have Spark's meaning, columns without an alias get Spark's names. So there is one place
//! for each of these, whatever the client.

mod call;
mod literal;
mod name;
mod window;

use crate::failure::{Failure, Outcome};
use crate::types::ddl_of;
use crate::{stack, text_depth};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, CaseWhen, CastKind, DataType as SqlType, Expr, Ident, LambdaFunction,
    LambdaFunctionParameter, LambdaSyntax, ObjectName, OneOrManyWithParens, SelectItem,
    SelectItemQualifiedWildcardKind, Subscript, WildcardAdditionalOptions,
};
use spark_connect_proto::expression::cast::{CastToType, EvalMode};
use spark_connect_proto::expression::{Cast, ExprType, UnresolvedAttribute};
use spark_connect_proto::{CommonInlineUserDefinedFunction, Expression, expression};

pub(crate) use call::call;
pub(crate) use literal::{literal, text as text_literal};
use name::starred;
pub(crate) use name::{Columns, parts_of, quoted};

/// Deepest nesting of an expression: walking a tree takes stack.
const DEPTH_MAX: usize = 256;

/// Turns expressions into syntax, over the columns that they see.
pub(crate) struct Translator<'a> {
    columns: &'a Columns<'a>,
    depth: usize,
}

impl<'a> Translator<'a> {
    pub(crate) fn new(columns: &'a Columns<'a>) -> Self {
        Translator { columns, depth: 0 }
    }

    /// An expression as an item of a projection, with its alias.
    pub(crate) fn item(&mut self, expression: &Expression) -> Outcome<SelectItem> {
        let kind = kind(expression)?;
        Ok(match kind {
            ExprType::UnresolvedStar(star) => match star.unparsed_target.as_deref() {
                None => SelectItem::Wildcard(WildcardAdditionalOptions::default()),
                Some(target) => SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(starred(target)?),
                    WildcardAdditionalOptions::default(),
                ),
            },
            ExprType::Alias(alias) => {
                let expr = self.child(alias.expr.as_deref(), "alias.expr")?;
                match alias.name.as_slice() {
                    [name] => SelectItem::ExprWithAlias { expr, alias: quoted(name) },
                    names => SelectItem::ExprWithAliases {
                        expr,
                        aliases: names.iter().map(|name| quoted(name)).collect(),
                    },
                }
            }
            ExprType::ExpressionString(text) => {
                text_depth::check(&text.expression)?;
                onefold_plan::sql::parse_select_item(&text.expression)?
            }
            ExprType::Cast(_) => match alias_below(expression) {
                Some(name) => SelectItem::ExprWithAlias {
                    expr: self.expression(expression)?,
                    alias: quoted(name),
                },
                None => SelectItem::UnnamedExpr(self.expression(expression)?),
            },
            _ => SelectItem::UnnamedExpr(self.expression(expression)?),
        })
    }

    fn child(&mut self, child: Option<&Expression>, field: &str) -> Outcome<Expr> {
        self.expression(child.ok_or_else(|| Failure::missing(field))?)
    }

    /// An expression as a value.
    pub(crate) fn expression(&mut self, expression: &Expression) -> Outcome<Expr> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Failure::analysis(format!(
                "the expression is nested deeper than {DEPTH_MAX}; split it over several columns"
            )));
        }
        let kind = kind(expression)?;
        let expr = stack::enough(|| self.value(kind));
        self.depth -= 1;
        expr
    }

    fn value(&mut self, kind: &ExprType) -> Outcome<Expr> {
        match kind {
            ExprType::Literal(value) => literal(value),
            ExprType::UnresolvedAttribute(attribute) => self.attribute(attribute),
            ExprType::UnresolvedFunction(function) => {
                self.function(&function.function_name, &function.arguments, function.is_distinct)
            }
            ExprType::CallFunction(function) => {
                self.function(&function.function_name, &function.arguments, false)
            }
            ExprType::ExpressionString(text) if text.expression.trim() == "*" => {
                Ok(Expr::Wildcard(AttachedToken::empty()))
            }
            ExprType::ExpressionString(text) => {
                text_depth::check(&text.expression)?;
                Ok(onefold_plan::sql::parse_expression(&text.expression)?)
            }
            // Inside an expression an alias names nothing.
            ExprType::Alias(alias) => self.child(alias.expr.as_deref(), "alias.expr"),
            ExprType::Cast(cast) => self.cast(cast),
            ExprType::SortOrder(order) => self.child(order.child.as_deref(), "sort.child"),
            ExprType::Window(window) => self.window(window),
            ExprType::UnresolvedExtractValue(extract) => {
                let root = self.child(extract.child.as_deref(), "extract.child")?;
                let index = self.child(extract.extraction.as_deref(), "extract.extraction")?;
                Ok(Expr::CompoundFieldAccess {
                    root: Box::new(root),
                    access_chain: vec![AccessExpr::Subscript(Subscript::Index { index })],
                })
            }
            ExprType::UpdateFields(update) => self.update(update),
            ExprType::UnresolvedStar(star) => Ok(match star.unparsed_target.as_deref() {
                None => Expr::Wildcard(AttachedToken::empty()),
                Some(target) => Expr::QualifiedWildcard(starred(target)?, AttachedToken::empty()),
            }),
            ExprType::UnresolvedRegex(regex) => {
                Ok(Expr::Identifier(quoted(regex.col_name.trim_matches('`'))))
            }
            ExprType::NamedArgumentExpression(argument) => {
                self.child(argument.value.as_deref(), "named argument")
            }
            ExprType::LambdaFunction(lambda) => self.lambda(lambda),
            ExprType::UnresolvedNamedLambdaVariable(variable) => {
                let mut parts = variable.name_parts.iter();
                let first = parts.next().ok_or_else(|| Failure::missing("name_parts"))?;
                Ok(parts.fold(Expr::Identifier(quoted(first)), |root, part| access(&root, part)))
            }
            ExprType::CommonInlineUserDefinedFunction(function) => self.inline(function),
            ExprType::SubqueryExpression(_) => Err(Failure::unsupported("a subquery in a column")),
            ExprType::TypedAggregateExpression(_) => {
                Err(Failure::unsupported("a typed aggregate of Scala"))
            }
            ExprType::MergeAction(_) => Err(Failure::unsupported("a merge action")),
            ExprType::DirectShufflePartitionId(_) => {
                Err(Failure::unsupported("a direct partition id"))
            }
            ExprType::Extension(_) => Err(Failure::unsupported("an extension")),
        }
    }

    fn attribute(&self, attribute: &UnresolvedAttribute) -> Outcome<Expr> {
        // Each part is one more access to a field.
        text_depth::check(&attribute.unparsed_identifier)?;
        let parts = parts_of(&attribute.unparsed_identifier)?;
        let path: Vec<Ident> =
            self.columns.path(&parts, attribute.plan_id)?.iter().map(|part| quoted(part)).collect();
        Ok(match <[Ident; 1]>::try_from(path) {
            Ok([name]) => Expr::Identifier(name),
            Err(path) => Expr::CompoundIdentifier(path),
        })
    }

    /// A function of the user that came with the expression.
    fn inline(&mut self, function: &CommonInlineUserDefinedFunction) -> Outcome<Expr> {
        let mut arguments = Vec::with_capacity(function.arguments.len());
        let mut names = Vec::with_capacity(function.arguments.len());
        for argument in &function.arguments {
            names.push(match kind(argument)? {
                ExprType::NamedArgumentExpression(named) => Some(named.key.clone()),
                _ => None,
            });
            arguments.push(self.expression(argument)?);
        }
        let session = self.columns.session();
        if crate::functions::aggregates(function) {
            if names.iter().any(Option::is_some) {
                return Err(Failure::unsupported("an aggregate with arguments by name"));
            }
            let known = crate::functions::inline_aggregate(session, function)?;
            let fields = arguments.into_iter().enumerate();
            let fields = fields.flat_map(|(at, value)| [literal::text(&format!("_{at}")), value]);
            let rows = call("array_agg", vec![call("named_struct", fields.collect())]);
            return Ok(call::named_call(quoted(&known), vec![rows]));
        }
        let known = crate::functions::inline(session, function, names)?;
        Ok(call::named_call(quoted(&known), arguments))
    }

    /// `(x, y) -> body`. Its variables are found by name in the body.
    fn lambda(&mut self, lambda: &expression::LambdaFunction) -> Outcome<Expr> {
        let body = self.child(lambda.function.as_deref(), "lambda.function")?;
        let parameter = |variable: &expression::UnresolvedNamedLambdaVariable| {
            let name = variable.name_parts.first().ok_or_else(|| Failure::missing("name_parts"))?;
            Ok(LambdaFunctionParameter { name: quoted(name), data_type: None })
        };
        let parameters = lambda.arguments.iter().map(parameter).collect::<Outcome<Vec<_>>>()?;
        Ok(Expr::Lambda(LambdaFunction {
            params: OneOrManyWithParens::Many(parameters),
            body: Box::new(body),
            syntax: LambdaSyntax::Arrow,
        }))
    }

    fn cast(&mut self, cast: &Cast) -> Outcome<Expr> {
        let expr = self.child(cast.expr.as_deref(), "cast.expr")?;
        let to = match cast.cast_to_type.as_ref().ok_or_else(|| Failure::missing("cast.type"))? {
            CastToType::Type(data_type) => ddl_of(data_type)?,
            CastToType::TypeStr(text) => text.clone(),
        };
        // Checked here, so that the error names the type and not the expression.
        let known = onefold_plan::schema::parse_type(&to)?;
        // Spark's own name of the type, unless that would lose a length.
        let to = if to.contains('(') { to } else { onefold_plan::schema::type_name(&known) };
        let kind = match cast.eval_mode() {
            EvalMode::Try => CastKind::TryCast,
            _ => CastKind::Cast,
        };
        Ok(Expr::Cast {
            kind,
            expr: Box::new(expr),
            data_type: SqlType::Custom(ObjectName::from(vec![Ident::new(to)]), Vec::new()),
            array: false,
            format: None,
        })
    }

    /// `withField` and `dropFields`, for a struct column whose fields are known.
    fn update(&mut self, update: &expression::UpdateFields) -> Outcome<Expr> {
        let target = update
            .struct_expression
            .as_deref()
            .ok_or_else(|| Failure::missing("struct_expression"))?;
        let root = self.expression(target)?;
        let fields = self.columns.struct_fields(&root).ok_or_else(|| {
            Failure::unsupported("withField or dropFields on what is not a plain struct column")
        })?;
        let value = match update.value_expression.as_deref() {
            Some(value) => Some(self.expression(value)?),
            None => None,
        };
        let mut arguments = Vec::new();
        let mut replaced = false;
        for field in fields {
            let this = field.eq_ignore_ascii_case(&update.field_name);
            let kept = match (&value, this) {
                (None, true) => continue,
                (Some(value), true) => {
                    replaced = true;
                    value.clone()
                }
                _ => access(&root, &field),
            };
            arguments.push(literal::text(&field));
            arguments.push(kept);
        }
        if let (Some(value), false) = (value, replaced) {
            arguments.push(literal::text(&update.field_name));
            arguments.push(value);
        }
        Ok(Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen {
                condition: Expr::IsNotNull(Box::new(root)),
                result: call("named_struct", arguments),
            }],
            else_result: None,
        })
    }
}

/// The alias of what is cast, which names the result too.
fn alias_below(expression: &Expression) -> Option<&str> {
    match expression.expr_type.as_ref()? {
        ExprType::Cast(cast) => alias_below(cast.expr.as_deref()?),
        ExprType::Alias(alias) => alias.name.first().map(String::as_str),
        _ => None,
    }
}

fn access(root: &Expr, field: &str) -> Expr {
    Expr::CompoundFieldAccess {
        root: Box::new(root.clone()),
        access_chain: vec![AccessExpr::Subscript(Subscript::Index { index: literal::text(field) })],
    }
}

/// What an expression is.
pub(crate) fn kind(expression: &Expression) -> Outcome<&ExprType> {
    expression.expr_type.as_ref().ok_or_else(|| Failure::missing("expression"))
}
