//! `function OVER (PARTITION BY … ORDER BY … ROWS BETWEEN …)`.

use super::Translator;
use super::call::plain_number;
use crate::failure::{Failure, Outcome};
use datafusion::sql::sqlparser::ast::{
    Expr, OrderByExpr, OrderByOptions, UnaryOperator, WindowFrame, WindowFrameBound,
    WindowFrameUnits, WindowSpec, WindowType,
};
use spark_connect_proto::expression::sort_order::{NullOrdering, SortDirection};
use spark_connect_proto::expression::window::window_frame::frame_boundary::Boundary;
use spark_connect_proto::expression::window::window_frame::{FrameBoundary, FrameType};
use spark_connect_proto::expression::{SortOrder, Window};

impl Translator<'_> {
    pub(super) fn window(&mut self, window: &Window) -> Outcome<Expr> {
        let function = self.child(window.window_function.as_deref(), "window function")?;
        let Expr::Function(mut function) = function else {
            return Err(Failure::analysis("only a function can stand before OVER"));
        };
        let mut partition_by = Vec::new();
        for expression in &window.partition_spec {
            partition_by.push(self.expression(expression)?);
        }
        let mut order_by = Vec::new();
        for order in &window.order_spec {
            order_by.push(self.order(order)?);
        }
        let window_frame = match window.frame_spec.as_deref() {
            None => None,
            Some(frame) => Some(WindowFrame {
                units: match frame.frame_type() {
                    FrameType::Range => WindowFrameUnits::Range,
                    _ => WindowFrameUnits::Rows,
                },
                start_bound: self.bound(frame.lower.as_deref(), true)?,
                end_bound: Some(self.bound(frame.upper.as_deref(), false)?),
            }),
        };
        function.over = Some(WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by,
            order_by,
            window_frame,
        }));
        Ok(Expr::Function(function))
    }

    /// One part of an ordering; NULLs stand where Spark puts them.
    pub(crate) fn order(&mut self, order: &SortOrder) -> Outcome<OrderByExpr> {
        let expr = self.child(order.child.as_deref(), "sort.child")?;
        let ascending = order.direction() != SortDirection::Descending;
        let nulls_first = match order.null_ordering() {
            NullOrdering::SortNullsFirst => true,
            NullOrdering::SortNullsLast => false,
            NullOrdering::SortNullsUnspecified => ascending,
        };
        Ok(OrderByExpr {
            expr,
            options: OrderByOptions { asc: Some(ascending), nulls_first: Some(nulls_first) },
            with_fill: None,
        })
    }

    fn bound(&mut self, bound: Option<&FrameBoundary>, lower: bool) -> Outcome<WindowFrameBound> {
        let boundary = bound.and_then(|bound| bound.boundary.as_ref());
        Ok(match boundary.ok_or_else(|| Failure::missing("frame boundary"))? {
            Boundary::CurrentRow(_) => WindowFrameBound::CurrentRow,
            Boundary::Unbounded(_) if lower => WindowFrameBound::Preceding(None),
            Boundary::Unbounded(_) => WindowFrameBound::Following(None),
            // Rows before are negative, rows behind positive.
            Boundary::Value(value) => match *unwrapped(self.expression(value)?) {
                Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                    WindowFrameBound::Preceding(Some(unwrapped(*expr)))
                }
                other => WindowFrameBound::Following(Some(Box::new(other))),
            },
        })
    }
}

/// The number itself, out of the cast that gave it its type.
fn unwrapped(expr: Expr) -> Box<Expr> {
    match expr {
        Expr::Cast { expr, .. } => unwrapped(*expr),
        Expr::Value(value) => Box::new(plain_number(&value.value.to_string())),
        other => Box::new(other),
    }
}
