//! What names mean: the parts of a name, and which of two columns with one name is meant.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName};
use std::collections::HashMap;

/// The columns that an expression sees.
pub(crate) struct Columns<'a> {
    schema: &'a DFSchema,
    /// By plan id, the qualifier that a join gave to that plan's columns.
    qualifiers: &'a HashMap<i64, String>,
    session: &'a ClientSession,
}

impl<'a> Columns<'a> {
    pub(crate) fn new(
        schema: &'a DFSchema,
        qualifiers: &'a HashMap<i64, String>,
        session: &'a ClientSession,
    ) -> Self {
        Columns { schema, qualifiers, session }
    }

    /// The session whose functions can be called.
    pub(crate) fn session(&self) -> &'a ClientSession {
        self.session
    }

    /// The path that means the column: with the qualifier of its plan where its name alone would
    /// be ambiguous.
    pub(crate) fn path(&self, parts: &[String], plan: Option<i64>) -> Outcome<Vec<String>> {
        let Some(first) = parts.first() else {
            return Err(Failure::analysis("a column has an empty name"));
        };
        let found: Vec<Option<String>> = self
            .schema
            .iter()
            .filter(|(_, field)| same(field.name(), first))
            .map(|(qualifier, _)| qualifier.map(|it| it.table().to_owned()))
            .collect();
        if found.len() > 1
            && let Some(qualifier) = plan.and_then(|plan| self.qualifiers.get(&plan))
            && found.iter().flatten().any(|known| known == qualifier)
        {
            let mut path = vec![qualifier.clone()];
            path.extend(parts.iter().cloned());
            return Ok(path);
        }
        let named = |qualifier: &str| {
            self.schema
                .iter()
                .any(|(known, _)| known.is_some_and(|known| same(known.table(), qualifier)))
        };
        if found.is_empty() && !(parts.len() > 1 && named(first)) {
            let known: Vec<String> =
                self.schema.fields().iter().map(|field| format!("`{}`", field.name())).collect();
            return Err(Failure::no_column(&parts.join("."), &known.join(", ")));
        }
        if found.len() > 1 && parts.len() == 1 {
            return Err(Failure::ambiguous(first));
        }
        Ok(parts.to_vec())
    }

    /// The fields of a struct column.
    pub(crate) fn struct_fields(&self, column: &Expr) -> Option<Vec<String>> {
        let name = match column {
            Expr::Identifier(name) => name.value.as_str(),
            Expr::CompoundIdentifier(path) => path.last()?.value.as_str(),
            _ => return None,
        };
        let field = self.schema.fields().iter().find(|field| same(field.name(), name))?;
        let DataType::Struct(fields) = field.data_type() else { return None };
        Some(fields.iter().map(|field| field.name().clone()).collect())
    }
}

fn same(left: &str, right: &str) -> bool {
    left.eq_ignore_ascii_case(right) || left.to_lowercase() == right.to_lowercase()
}

/// What stands before the star of `t.*` or `s.*`.
///
/// # Errors
/// As [`parts_of`].
pub(crate) fn starred(target: &str) -> Outcome<ObjectName> {
    let target = target.trim_end_matches('*').trim_end_matches('.');
    let parts: Vec<Ident> = parts_of(target)?.iter().map(|part| quoted(part)).collect();
    Ok(ObjectName::from(parts))
}

/// A name in backquotes.
pub(crate) fn quoted(name: &str) -> Ident {
    Ident::with_quote('`', name)
}

/// The parts of a dotted name; backquotes hold dots together, and a doubled one is one.
///
/// # Errors
/// A backquote is not closed, or stands in the middle of a part.
pub(crate) fn parts_of(text: &str) -> Outcome<Vec<String>> {
    let wrong = || Failure::analysis(format!("the name `{text}` is not a column's"));
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut chars = text.chars().peekable();
    let mut quoted = false;
    let mut closed = false;
    while let Some(c) = chars.next() {
        match c {
            '`' if quoted => {
                if chars.peek() == Some(&'`') {
                    chars.next();
                    part.push('`');
                } else {
                    quoted = false;
                    closed = true;
                }
            }
            '`' if part.is_empty() && !closed => quoted = true,
            '`' => return Err(wrong()),
            '.' if !quoted => {
                parts.push(std::mem::take(&mut part));
                closed = false;
            }
            _ if closed => return Err(wrong()),
            c => part.push(c),
        }
    }
    if quoted {
        return Err(wrong());
    }
    parts.push(part);
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::parts_of;

    #[test]
    fn names_split_at_dots_outside_backquotes() {
        assert_eq!(parts_of("a.b").unwrap(), ["a", "b"]);
        assert_eq!(parts_of("`a.b`.c").unwrap(), ["a.b", "c"]);
        assert_eq!(parts_of("`a``b`").unwrap(), ["a`b"]);
        assert!(parts_of("`a").is_err());
        assert!(parts_of("a`b`").is_err());
    }
}
