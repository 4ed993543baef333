//! `JOIN … USING (k)` and `NATURAL JOIN`: the columns that both sides have come once, first, and hold
//! the side's value that is there.
//!
//! The join gets a plain condition. What `k` means alone is an expression: the left key, for a RIGHT
//! JOIN the right one, for a FULL JOIN whichever is not NULL; `l.k` and `r.k` stay what they are.

use super::rewrite::call;
use super::scope::{Column, Relation, same};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, JoinOperator, ObjectNamePart, Value,
};
use onefold_types::{Error, Result};

/// Which side's keys a row of a join has for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Left,
    Right,
    Either,
    /// Rows of the left side alone.
    OnlyLeft,
}

/// The relations behind a join, whose `USING` becomes a condition.
///
/// # Errors
/// A side has no column of a name in USING.
pub(super) fn joined(
    operator: &mut JoinOperator,
    mut left: Vec<Relation>,
    mut right: Vec<Relation>,
) -> Result<Vec<Relation>> {
    let kept = kept(operator);
    let names = match constraint(operator) {
        Some(JoinConstraint::Using(names)) => {
            let last = |name: &ObjectNamePart| name.as_ident().map(|it| it.value.clone());
            names.iter().filter_map(|name| name.0.last().and_then(last)).collect()
        }
        Some(JoinConstraint::Natural) => in_both(&left, &right),
        _ => {
            left.extend(right);
            return Ok(left);
        }
    };
    let whole = (kept == Kept::OnlyLeft).then(|| left.clone());
    let mut keys = Vec::with_capacity(names.len());
    let mut conditions = Vec::with_capacity(names.len());
    for name in names {
        let (left_key, mut key) = taken(&mut left, &name, "left")?;
        let (right_key, _) = taken(&mut right, &name, "right")?;
        conditions.push(equal(left_key.clone(), right_key.clone()));
        key.merged = Some(Box::new(match kept {
            Kept::Left | Kept::OnlyLeft => left_key,
            Kept::Right => right_key,
            Kept::Either => call("coalesce", vec![left_key, right_key]),
        }));
        keys.push(key);
    }
    if let Some(constraint) = constraint(operator) {
        let all = conditions.into_iter().reduce(|left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        });
        let always = || Expr::Value(Value::Boolean(true).into());
        *constraint = JoinConstraint::On(all.unwrap_or_else(always));
    }
    if let Some(mut whole) = whole {
        whole.extend(right);
        return Ok(whole);
    }
    let mut relations = vec![Relation::of(None, keys)];
    relations.extend(left);
    relations.extend(right);
    Ok(relations)
}

fn equal(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::Eq, right: Box::new(right) }
}

/// Takes a column out of what a wildcard shows of a side: how it is written, and what it is.
fn taken(side: &mut [Relation], name: &str, which: &str) -> Result<(Expr, Column)> {
    for relation in side.iter_mut() {
        let Some(place) = relation.columns.iter().position(|it| it.shown() && same(&it.name, name))
        else {
            continue;
        };
        let Some(column) = relation.columns.get(place).cloned() else { continue };
        let written = relation.path(&column);
        // A key of an earlier USING has no name of its own, so that nobody could ask for it.
        if column.merged.is_some() {
            relation.columns.remove(place);
        } else if let Some(column) = relation.columns.get_mut(place) {
            column.covered = true;
        }
        return Ok((written, column));
    }
    let columns: Vec<&str> = shown(side).map(|column| column.name.as_str()).collect();
    Err(Error::invalid(format!(
        "USING column `{name}` cannot be resolved on the {which} side of the join. The {which}-side \
         columns: [{}]",
        columns.join(", ")
    )))
}

fn shown(side: &[Relation]) -> impl Iterator<Item = &Column> {
    side.iter().flat_map(|relation| &relation.columns).filter(|column| column.shown())
}

/// The names that both sides have, as the left one writes them.
fn in_both(left: &[Relation], right: &[Relation]) -> Vec<String> {
    let there = |name: &str| shown(right).any(|column| same(&column.name, name));
    shown(left).filter(|column| there(&column.name)).map(|column| column.name.clone()).collect()
}

fn kept(join: &JoinOperator) -> Kept {
    match join {
        JoinOperator::Right(_) | JoinOperator::RightOuter(_) => Kept::Right,
        JoinOperator::FullOuter(_) => Kept::Either,
        JoinOperator::Semi(_)
        | JoinOperator::LeftSemi(_)
        | JoinOperator::Anti(_)
        | JoinOperator::LeftAnti(_) => Kept::OnlyLeft,
        _ => Kept::Left,
    }
}

/// The condition of a join that has one.
pub(super) fn constraint(join: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match join {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}
