//! `http_call(url, body[, options])`: asks a service for each row.
//!
//! Gives `STRUCT<status INT, body STRING, headers MAP<STRING, STRING>>`. In a stream each call has a key, and
//! its reply is remembered before the batch is published, so that a batch that runs again does not call again.
//! Elsewhere calls are made as they come.
//!
//! In the plan of a stream the function is a [`CallSite`], of which no two are equal, until a batch puts the
//! function itself in its place, with the log of that batch.

use crate::failure;
use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, MapArray, StringArray, StructArray, new_empty_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use async_trait::async_trait;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::{StreamExt, TryStreamExt, stream};
use onefold_connector::{BatchEffects, EffectsLog, OutsideCaller, OutsideCalls};
use onefold_types::{BatchId, Error, Reply};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The function's name.
pub(crate) const NAME: &str = "http_call";

/// What calls for a session.
#[derive(Debug, Clone)]
pub(crate) struct Handle(Arc<dyn OutsideCalls>);

impl Handle {
    /// That of a session, if it has one.
    pub(crate) fn of(state: &SessionState) -> Option<Arc<Handle>> {
        state.config().get_extension::<Handle>()
    }
}

/// Lets the functions of a session call others.
///
/// # Errors
/// Internal, when the session refuses a function.
pub fn use_calls(
    context: &SessionContext,
    calls: Arc<dyn OutsideCalls>,
) -> onefold_types::Result<()> {
    let handle = Arc::new(Handle(calls));
    let state = context.state_ref();
    let mut state = state.write();
    state.config_mut().set_extension(Arc::clone(&handle));
    state.register_udf(Arc::new(function(Some(handle), None))).map(drop).map_err(failure::planning)
}

/// Lets the functions of a stream call others: plans that a session with these settings makes.
pub fn calls_of(config: &mut SessionConfig, calls: Arc<dyn OutsideCalls>) {
    config.set_extension(Arc::new(Handle(calls)));
}

/// The function; `of` is the batch that it belongs to.
pub(crate) fn function(
    calls: Option<Arc<Handle>>,
    of: Option<(Arc<dyn EffectsLog>, BatchId)>,
) -> ScalarUDF {
    let call = HttpCall { signature: signature(), calls, of };
    AsyncScalarUDF::new(Arc::new(call)).into_scalar_udf()
}

fn signature() -> Signature {
    let counts = vec![TypeSignature::Any(2), TypeSignature::Any(3)];
    Signature::one_of(counts, Volatility::Volatile)
}

fn headers_type() -> DataType {
    let entries = DataType::Struct(Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, true),
    ]));
    DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
}

fn reply_fields() -> Fields {
    Fields::from(vec![
        Field::new("status", DataType::Int32, true),
        Field::new("body", DataType::Utf8, true),
        Field::new("headers", headers_type(), true),
    ])
}

/// A place in a stream's plan where calls are made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CallSite {
    signature: Signature,
    site: u32,
}

impl CallSite {
    /// The place with this number.
    pub(crate) fn udf(site: u32) -> ScalarUDF {
        ScalarUDF::new_from_impl(CallSite { signature: signature(), site })
    }
}

impl ScalarUDFImpl for CallSite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(reply_fields()))
    }

    fn invoke_with_args(&self, _arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(misplaced())
    }
}

/// The error of a call where none can be made.
pub(crate) fn misplaced() -> DataFusionError {
    DataFusionError::Plan(
        "http_call stands where it cannot be called; give it a column of its own in a SELECT, and use \
         that column"
            .to_owned(),
    )
}

/// The function itself.
#[derive(Debug)]
struct HttpCall {
    signature: Signature,
    calls: Option<Arc<Handle>>,
    of: Option<(Arc<dyn EffectsLog>, BatchId)>,
}

// No two calls are one: each has its reply.
impl PartialEq for HttpCall {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for HttpCall {}

impl Hash for HttpCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        NAME.hash(state);
    }
}

impl ScalarUDFImpl for HttpCall {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(reply_fields()))
    }

    fn invoke_with_args(&self, _arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(misplaced())
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for HttpCall {
    async fn invoke_async_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let calls = self.calls.as_ref().ok_or_else(|| {
            failure::external(Error::invalid("this session cannot call others over HTTP"))
        })?;
        let caller = calls.0.caller(&options(&arguments)?).map_err(failure::external)?;
        let (urls, bodies) = (texts(&arguments, 0)?, texts(&arguments, 1)?);
        let effects = match &self.of {
            Some((log, batch)) => Some(log.batch(*batch).await.map_err(failure::external)?),
            None => None,
        };
        let replies: Vec<Option<Reply>> = stream::iter(0..rows)
            .map(|row| {
                let body = bodies.is_valid(row).then(|| bodies.value(row));
                let url = urls.is_valid(row).then(|| urls.value(row));
                reply(caller.as_ref(), effects.as_deref(), url, body)
            })
            .buffered(caller.at_once())
            .try_collect()
            .await
            .map_err(failure::external)?;
        Ok(ColumnarValue::Array(columns(&replies)?))
    }
}

/// The reply to one call: that which is remembered, or one that is then.
async fn reply(
    caller: &dyn OutsideCaller,
    effects: Option<&dyn BatchEffects>,
    url: Option<&str>,
    body: Option<&str>,
) -> onefold_types::Result<Option<Reply>> {
    let Some(url) = url else { return Ok(None) };
    let Some(effects) = effects else { return caller.call(url, body, None).await };
    let key = effects.next_key(caller.content(url, body));
    if let Some(known) = effects.recorded(key) {
        return Ok(Some(known));
    }
    let reply = caller.call(url, body, Some(key)).await?;
    if let Some(reply) = &reply {
        effects.record(key, reply.clone()).await?;
    }
    Ok(reply)
}

fn texts(arguments: &ScalarFunctionArgs, place: usize) -> Result<StringArray> {
    let value = arguments.args.get(place).ok_or_else(misplaced)?;
    let column = value.to_array(arguments.number_rows)?;
    Ok(arrow::compute::cast(&column, &DataType::Utf8)?.as_string::<i32>().clone())
}

/// The third argument: one map for all rows.
fn options(arguments: &ScalarFunctionArgs) -> Result<BTreeMap<String, String>> {
    let Some(value) = arguments.args.get(2) else { return Ok(BTreeMap::new()) };
    let column = value.to_array(arguments.number_rows.max(1))?;
    let maps = column.as_map_opt().ok_or_else(|| {
        DataFusionError::Plan("the options of http_call are a map of texts".to_owned())
    })?;
    if maps.is_empty() || maps.is_null(0) {
        return Ok(BTreeMap::new());
    }
    let entries = maps.value(0);
    let column = |place: usize| -> Result<ArrayRef> {
        let column = entries.columns().get(place).ok_or_else(misplaced)?;
        Ok(arrow::compute::cast(column, &DataType::Utf8)?)
    };
    let (names, values) = (column(0)?, column(1)?);
    let pairs = names.as_string::<i32>().iter().zip(values.as_string::<i32>());
    Ok(pairs.filter_map(|(name, value)| Some((name?.to_owned(), value?.to_owned()))).collect())
}

fn columns(replies: &[Option<Reply>]) -> Result<ArrayRef> {
    let nulls = NullBuffer::from_iter(replies.iter().map(Option::is_some));
    let status: Int32Array =
        replies.iter().map(|reply| reply.as_ref().map(|it| i32::from(it.status))).collect();
    let body: StringArray =
        replies.iter().map(|reply| reply.as_ref().map(|it| it.body.as_str())).collect();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(status), Arc::new(body), Arc::new(headers(replies, nulls.clone())?)];
    if replies.is_empty() {
        return Ok(new_empty_array(&DataType::Struct(reply_fields())));
    }
    Ok(Arc::new(StructArray::try_new(reply_fields(), columns, Some(nulls))?))
}

fn headers(replies: &[Option<Reply>], nulls: NullBuffer) -> Result<MapArray> {
    let of = |reply: &Option<Reply>| reply.as_ref().map_or(0, |reply| reply.headers.len());
    let offsets = OffsetBuffer::from_lengths(replies.iter().map(of));
    let all = || replies.iter().flatten().flat_map(|reply| &reply.headers);
    let names: StringArray = all().map(|(name, _)| Some(name.as_str())).collect();
    let values: StringArray = all().map(|(_, value)| Some(value.as_str())).collect();
    let (field, ordered) = match headers_type() {
        DataType::Map(field, ordered) => (field, ordered),
        _ => return Err(misplaced()),
    };
    let DataType::Struct(fields) = field.data_type().clone() else { return Err(misplaced()) };
    let entries = StructArray::try_new(fields, vec![Arc::new(names), Arc::new(values)], None)?;
    Ok(MapArray::try_new(field, offsets, entries, Some(nulls), ordered)?)
}

#[cfg(test)]
mod tests;
