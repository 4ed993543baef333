//! State of the user's own.

use super::{Identity, names, unordered};
use crate::stream::user_state::{GroupsOptions, TransformOptions};
use datafusion::common::DFSchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use onefold_connector::OutputMode;
use onefold_operators::{GroupTimeout, TimeMode};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Calls the user's code for each key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct UserState {
    pub(crate) identity: Identity,
    pub(crate) input: LogicalPlan,
    /// The keys, over the input.
    pub(crate) keys: Vec<Expr>,
    /// The column of the input with a watermark.
    pub(crate) event_time: Option<Expr>,
    /// What the state begins with.
    pub(crate) initial: Option<InitialRows>,
    pub(crate) function: UserFunction,
    pub(crate) schema: DFSchemaRef,
}

/// Static rows that the state begins with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct InitialRows {
    pub(crate) plan: LogicalPlan,
    /// The keys, over the plan.
    pub(crate) keys: Vec<Expr>,
}

/// The user's code. Two are equal if they are the same one.
#[derive(Debug, Clone)]
pub(crate) enum UserFunction {
    Groups(Arc<GroupsOptions>),
    Transform(Arc<TransformOptions>),
}

impl UserFunction {
    fn address(&self) -> usize {
        match self {
            UserFunction::Groups(options) => Arc::as_ptr(options).addr(),
            UserFunction::Transform(options) => Arc::as_ptr(options).addr(),
        }
    }

    /// The name that the user gave it.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            UserFunction::Groups(options) => options.name.as_deref(),
            UserFunction::Transform(options) => options.name.as_deref(),
        }
    }

    /// The output mode that the code is written for, if it matters.
    pub(crate) fn mode(&self) -> Option<OutputMode> {
        match self {
            UserFunction::Groups(options) => Some(options.mode),
            UserFunction::Transform(options) => options.mode,
        }
    }

    /// Whether it waits for the watermark.
    pub(crate) fn by_event_time(&self) -> bool {
        match self {
            UserFunction::Groups(options) => options.timeout == GroupTimeout::EventTime,
            UserFunction::Transform(options) => options.time == TimeMode::EventTime,
        }
    }

    /// Whether each key has one state, which only the code itself removes.
    pub(crate) fn without_timeout(&self) -> bool {
        match self {
            UserFunction::Groups(options) => options.timeout == GroupTimeout::None,
            UserFunction::Transform(_) => false,
        }
    }

    /// Whether the watermark holds for what comes out.
    pub(crate) fn keeps_watermark(&self) -> bool {
        match self {
            UserFunction::Groups(_) => false,
            UserFunction::Transform(options) => options.event_time.is_some(),
        }
    }

    /// Whether it waits for the clock.
    pub(crate) fn by_processing_time(&self) -> bool {
        match self {
            UserFunction::Groups(options) => options.timeout == GroupTimeout::ProcessingTime,
            UserFunction::Transform(options) => options.time == TimeMode::ProcessingTime,
        }
    }
}

impl PartialEq for UserFunction {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for UserFunction {}

impl Hash for UserFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

unordered!(UserState);

impl UserDefinedLogicalNodeCore for UserState {
    fn name(&self) -> &str {
        match self.function {
            UserFunction::Groups(_) => "FlatMapGroupsWithState",
            UserFunction::Transform(_) => "TransformWithState",
        }
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        std::iter::once(&self.input)
            .chain(self.initial.as_ref().map(|initial| &initial.plan))
            .collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let initial = self.initial.iter().flat_map(|initial| initial.keys.iter().cloned());
        self.keys.iter().cloned().chain(self.event_time.clone()).chain(initial).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", UserDefinedLogicalNodeCore::name(self), names(&self.keys))
    }

    fn with_exprs_and_inputs(
        &self,
        mut exprs: Vec<Expr>,
        inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        let mut inputs = inputs.into_iter();
        let (input, initial, none) = (inputs.next(), inputs.next(), inputs.next());
        let input = input
            .filter(|_| none.is_none() && initial.is_some() == self.initial.is_some())
            .ok_or_else(|| DataFusionError::Internal("UserState has other inputs".to_owned()))?;
        let mut rest = exprs.split_off(self.keys.len().min(exprs.len()));
        let initial_keys = rest.split_off(usize::from(self.event_time.is_some()).min(rest.len()));
        let event_time = rest.into_iter().next();
        let initial = initial.map(|plan| InitialRows { plan, keys: initial_keys });
        Ok(UserState { input, keys: exprs, event_time, initial, ..self.clone() })
    }
}
