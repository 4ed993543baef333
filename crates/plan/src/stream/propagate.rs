//! The watermark of each stateful operator, from the query's watermark and the plan.
//!
//! Every `withWatermark` node lets the query's watermark out. What goes into a node is the least
//! of what comes out of its inputs that have one. A join lets out less: a row that it still keeps
//! may come out with an older time. This is Spark's simulation, as a pure function.

use super::bounds::JoinBounds;

/// A plan, as far as watermarks go.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Flow {
    /// A source or a static table, without a watermark.
    Source,
    /// A `withWatermark` node.
    Watermark(Box<Flow>),
    /// A node that changes no times, such as a union or a projection.
    Through(Vec<Flow>),
    /// A stateful operator.
    Operator {
        /// Its number.
        id: u32,
        /// What it lets out.
        output: Output,
        /// Its inputs.
        inputs: Vec<Flow>,
    },
}

/// How the watermark leaves an operator.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Output {
    /// As it came in.
    Same,
    /// Lowered by what a join keeps.
    Join(JoinBounds),
    /// Not at all: rows of any time may come out.
    Nothing,
}

/// The watermark that goes into each operator, by number; `None` where none arrives.
pub(crate) fn propagate(flow: &Flow, watermark_ms: i64, operators: usize) -> Vec<Option<i64>> {
    let mut found = vec![None; operators];
    walk(flow, watermark_ms, &mut found);
    found
}

fn walk(flow: &Flow, watermark_ms: i64, found: &mut Vec<Option<i64>>) -> Option<i64> {
    match flow {
        Flow::Source => None,
        Flow::Watermark(input) => {
            walk(input, watermark_ms, found);
            Some(watermark_ms)
        }
        Flow::Through(inputs) => least(inputs, watermark_ms, found),
        Flow::Operator { id, output, inputs } => {
            let input = least(inputs, watermark_ms, found);
            let place = usize::try_from(*id).ok().and_then(|id| found.get_mut(id));
            if let Some(place) = place {
                *place = input;
            }
            match output {
                Output::Same => input,
                Output::Join(bounds) => bounds.output(input?),
                Output::Nothing => None,
            }
        }
    }
}

fn least(inputs: &[Flow], watermark_ms: i64, found: &mut Vec<Option<i64>>) -> Option<i64> {
    inputs.iter().filter_map(|input| walk(input, watermark_ms, found)).min()
}

#[cfg(test)]
mod tests {
    use super::{Flow, Output, propagate};
    use crate::stream::bounds::{JoinBounds, StateBound};

    fn source() -> Flow {
        Flow::Watermark(Box::new(Flow::Source))
    }

    fn operator(id: u32, output: Output, inputs: Vec<Flow>) -> Flow {
        Flow::Operator { id, output, inputs }
    }

    #[test]
    fn a_chain_of_aggregations_passes_the_watermark_on() {
        let lower = operator(1, Output::Same, vec![Flow::Through(vec![source()])]);
        let upper = operator(0, Output::Same, vec![Flow::Through(vec![lower])]);
        assert_eq!(propagate(&upper, 70, 2), [Some(70), Some(70)]);
    }

    #[test]
    fn a_join_over_a_range_lowers_what_follows_by_the_range() {
        let bounds = JoinBounds {
            left: Some(StateBound::Value { slack_ms: -30_001 }),
            right: Some(StateBound::Value { slack_ms: -1 }),
        };
        let join = operator(1, Output::Join(bounds), vec![source(), source()]);
        let count = operator(0, Output::Same, vec![join]);
        assert_eq!(propagate(&count, 100_000, 2), [Some(69_999), Some(100_000)]);
    }

    #[test]
    fn a_join_that_keeps_rows_for_ever_lets_no_watermark_out() {
        let join = operator(1, Output::Join(JoinBounds::default()), vec![source(), source()]);
        let count = operator(0, Output::Same, vec![join]);
        assert_eq!(propagate(&count, 100_000, 2), [None, Some(100_000)]);
    }

    #[test]
    fn a_union_with_a_side_without_a_watermark_has_that_of_the_other() {
        let union = Flow::Through(vec![source(), Flow::Source]);
        let count = operator(0, Output::Same, vec![union]);
        assert_eq!(propagate(&count, 5, 1), [Some(5)]);
    }

    #[test]
    fn a_union_of_a_lowered_and_a_plain_side_has_the_least() {
        let key = Some(StateBound::Key { position: 0 });
        let bounds = JoinBounds { left: key, right: key };
        let value = |slack_ms| Some(StateBound::Value { slack_ms });
        let slow = JoinBounds { left: value(-10), right: value(-1) };
        let windows = operator(1, Output::Join(bounds), vec![source(), source()]);
        let range = operator(2, Output::Join(slow), vec![source(), source()]);
        let union = Flow::Through(vec![windows, range, source()]);
        let count = operator(0, Output::Same, vec![union]);
        assert_eq!(propagate(&count, 100, 3), [Some(90), Some(100), Some(100)]);
    }

    #[test]
    fn states_of_the_users_own_let_no_watermark_out() {
        let own = operator(1, Output::Nothing, vec![source()]);
        assert_eq!(propagate(&operator(0, Output::Same, vec![own]), 9, 2), [None, Some(9)]);
    }
}
