//! Rows that the client sends, and rows that are made.

use super::{Planner, built};
use crate::failure::{Failure, Outcome};
use crate::rows;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, UNNAMED_TABLE};
use onefold_plan::schema::{parse_schema, parse_type};
use prost::bytes::Bytes;
use spark_connect_proto::{CachedLocalRelation, ChunkedCachedLocalRelation, LocalRelation};
use std::sync::Arc;

/// A plan of rows in memory.
pub(crate) fn of_batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Outcome<LogicalPlan> {
    let table = MemTable::try_new(schema, vec![batches])?;
    let source = provider_as_source(Arc::new(table));
    built(LogicalPlanBuilder::scan(UNNAMED_TABLE, source, None))
}

/// A schema text as a client sends it: columns in DDL, JSON, or one type.
pub(crate) fn schema_of(text: &str) -> Outcome<SchemaRef> {
    match parse_schema(text) {
        Ok(schema) => Ok(schema),
        Err(error) => match parse_type(text) {
            Ok(DataType::Struct(fields)) => Ok(Arc::new(arrow::datatypes::Schema::new(fields))),
            Ok(other) => {
                let field = arrow::datatypes::Field::new("value", other, true);
                Ok(Arc::new(arrow::datatypes::Schema::new(vec![field])))
            }
            Err(_) => Err(error.into()),
        },
    }
}

impl Planner<'_> {
    pub(super) fn local(&mut self, local: &LocalRelation) -> Outcome<LogicalPlan> {
        let wanted = match local.schema.as_deref() {
            None | Some("") => None,
            Some(text) => Some(schema_of(text)?),
        };
        let Some(bytes) = &local.data else {
            let schema = wanted.ok_or_else(|| Failure::missing("schema"))?;
            return of_batches(schema, Vec::new());
        };
        let (schema, batches) = rows::from_ipc(bytes)?;
        let wanted = wanted.unwrap_or_else(|| rows::plain_schema(&schema));
        if wanted.fields().len() != schema.fields().len() {
            return Err(Failure::invalid("the local rows have other columns than their schema"));
        }
        let batches: Outcome<Vec<RecordBatch>> =
            batches.iter().map(|batch| rows::plain_batch(batch, &wanted)).collect();
        let nullable: Vec<_> =
            wanted.fields().iter().map(|it| it.as_ref().clone().with_nullable(true)).collect();
        of_batches(Arc::new(arrow::datatypes::Schema::new(nullable)), batches?)
    }

    pub(super) fn cached_local(&mut self, cached: &CachedLocalRelation) -> Outcome<LogicalPlan> {
        let bytes = self.artifact(&cached.hash)?;
        let local: LocalRelation = crate::message::decode(bytes)?;
        self.local(&local)
    }

    pub(super) fn chunked_local(
        &mut self,
        cached: &ChunkedCachedLocalRelation,
    ) -> Outcome<LogicalPlan> {
        let schema = match &cached.schema_hash {
            None => None,
            Some(hash) => {
                let bytes = self.artifact(hash)?;
                let text = String::from_utf8(bytes.to_vec())
                    .map_err(|_| Failure::invalid("the cached schema is no text"))?;
                Some(text)
            }
        };
        let mut whole: Option<LogicalPlan> = None;
        for hash in &cached.data_hashes {
            let data = Some(self.artifact(hash)?);
            let part = self.local(&LocalRelation { data, schema: schema.clone() })?;
            whole = Some(match whole {
                None => part,
                Some(before) => built(LogicalPlanBuilder::from(before).union(part))?,
            });
        }
        match whole {
            Some(plan) => Ok(plan),
            None => self.local(&LocalRelation { data: None, schema }),
        }
    }

    fn artifact(&self, hash: &str) -> Outcome<Bytes> {
        self.session.artifacts.get(&format!("cache/{hash}")).ok_or_else(|| {
            Failure::invalid(format!(
                "the client refers to cached rows {hash} that it did not send"
            ))
        })
    }
}
