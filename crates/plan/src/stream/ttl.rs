//! How long operators without a bound of their own keep what is not written any more.

use super::StreamingPlan;
use super::stateful::{Stateful, Unbounded};
use onefold_operators::StateTtl;
use onefold_state::{OperatorId, OperatorSpec};
use onefold_types::{Error, Result};
use std::collections::BTreeMap;

/// Times to live of state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TtlOptions {
    /// Of all operators that nothing bounds, in milliseconds.
    pub all_ms: Option<i64>,
    /// Of single ones, by their lasting names; goes before `all_ms`.
    pub by_label: BTreeMap<String, i64>,
}

impl StreamingPlan {
    /// The same query, of whose operators those that have no bound of their own let go of keys that
    /// were not written for a time. To be called before the first batch.
    ///
    /// # Errors
    /// Invalid: a name is not that of an operator, or of one that has a bound of its own.
    pub fn with_ttl(mut self, options: &TtlOptions) -> Result<Self> {
        let stateful = &mut self.stateful;
        for label in options.by_label.keys() {
            if stateful.unbounded.iter().any(|it| it.label == *label) {
                continue;
            }
            return Err(Error::invalid(if stateful.labels.contains(label) {
                format!(
                    "the operator `{label}` has a bound of its own, so that onefold.state.ttl means \
                     nothing for it; take that option out"
                )
            } else {
                format!(
                    "there is no operator `{label}`; those that onefold.state.ttl can be given for \
                     are {}",
                    named(stateful)
                )
            }));
        }
        for operator in &stateful.unbounded {
            let ms = options.by_label.get(&operator.label).copied().or(options.all_ms);
            let Some(ms) = ms else { continue };
            stateful.ttl_ms.insert(operator.id, ms.max(1));
            stateful.warnings.retain(|warning| Some(warning) != operator.warning.as_ref());
        }
        Ok(self)
    }
}

fn named(stateful: &Stateful) -> String {
    let names: Vec<String> =
        stateful.unbounded.iter().map(|it| format!("`{}`", it.label)).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The times to live of a query's operators: milliseconds and families, by number.
#[derive(Debug, Clone, Default)]
pub(super) struct TtlFamilies(BTreeMap<OperatorId, (i64, Vec<usize>)>);

impl TtlFamilies {
    /// The time to live of an operator, whose spec is as it declares it by itself.
    pub(super) fn of(&self, spec: &OperatorSpec) -> Option<StateTtl> {
        self.declare(&mut spec.clone())
    }

    /// Adds to an operator's state what its time to live needs; `None` if it has none.
    pub(super) fn declare(&self, spec: &mut OperatorSpec) -> Option<StateTtl> {
        let (ms, families) = self.0.get(&spec.id)?;
        Some(StateTtl::declare(spec, families, *ms))
    }
}

impl Stateful {
    pub(super) fn ttl(&self) -> TtlFamilies {
        let of = |operator: &Unbounded| {
            let ms = *self.ttl_ms.get(&operator.id)?;
            Some((operator.id, (ms, operator.families.clone())))
        };
        TtlFamilies(self.unbounded.iter().filter_map(of).collect())
    }
}
