//! Registries of schemas: how the planner and the functions of a session reach one.

use super::avro;
use crate::failure;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionContext;
use onefold_connector::SchemaRegistry;
use onefold_types::{Error, Result};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Names a registry in the options of a function.
pub(crate) const ADDRESS: &str = "schema.registry.address";
/// Names a subject of it.
pub(crate) const SUBJECT: &str = "schema.registry.subject";
/// The message of a schema of Protocol Buffers, where it is not the first.
pub(crate) const MESSAGE: &str = "schema.registry.protobuf.name";
/// Whether a schema that the subject does not have is put there.
pub(crate) const REGISTER: &str = "auto.register.schemas";
/// The schema that was found, in a plan.
pub(crate) const FOUND: &str = "schema.registry.schema.id";

/// Why credentials are no options of a function.
pub(crate) const NO_SECRETS: &str = "credentials are not given in expressions, which plans and logs \
     show: set onefold.schemaRegistry.url with onefold.schemaRegistry.basic.auth.user.info or \
     .bearer.auth.token for the session";

/// The registry of a session, for functions and the planner.
#[derive(Debug, Clone)]
pub(crate) struct Handle(pub(crate) Arc<dyn SchemaRegistry>);

impl PartialEq for Handle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Handle {}

impl Hash for Handle {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Handle {
    /// That of a session.
    ///
    /// # Errors
    /// Invalid: it has none.
    pub(crate) fn of(state: &SessionState) -> Result<Arc<Handle>> {
        state
            .config()
            .get_extension::<Handle>()
            .ok_or_else(|| Error::invalid("this session cannot ask registries of schemas"))
    }
}

/// Lets the functions of a session take schemas from a registry.
///
/// # Errors
/// Internal, when the session refuses a function.
pub fn use_registry(context: &SessionContext, registry: Arc<dyn SchemaRegistry>) -> Result<()> {
    let handle = Handle(registry);
    let state = context.state_ref();
    let mut state = state.write();
    state.config_mut().set_extension(Arc::new(handle.clone()));
    let function = Arc::new(avro::from_avro(Some(handle)));
    state.register_udf(function).map(drop).map_err(failure::planning)
}
