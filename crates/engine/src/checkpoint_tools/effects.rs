//! What a checkpoint remembers of calls to the outside world, for commands.

use crate::effects::Effects;
use onefold_connector::SinkEffects;
use onefold_protocol::record::{EffectsMark, EffectsName};
use onefold_storage::Store;
use onefold_types::{BatchId, QueryId};
use std::sync::Arc;

/// The effects log of a checkpoint for a sink that is only looked at.
#[must_use]
pub fn effects_to_look_at(store: Arc<dyn Store>, query: QueryId) -> SinkEffects {
    SinkEffects { log: Effects::to_look_at(store, query), site: String::new() }
}

/// The batch that a file of `_onefold/effects/` is of, by its name there; `None` for other names.
pub(super) fn batch_of(name: &str) -> Option<BatchId> {
    let replies = name.parse::<EffectsName>().ok().map(|name| name.batch);
    replies.or_else(|| EffectsMark::batch_in(name))
}
