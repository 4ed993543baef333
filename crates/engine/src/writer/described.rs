//! What a query is, as its writer describes it: everything that needs no checkpoint, and where the
//! checkpoint goes.

use super::options::{
    SETTING_TABLE, TTL_PREFIX, WRITER_OPTIONS, WRITER_TABLE, check_sink_options, has_option,
    shown_options, ttl_options,
};
use super::{DataStreamWriter, FUNCTIONS, OUTPUT_OF_PROCESS, further};
use crate::conf::{Conf, SETTINGS};
use crate::distinct_columns;
use crate::reader::names;
use crate::run::definition::{CheckpointPlace, FurtherSink, QueryDefinition, SinkRecord};
use crate::session::Session;
use arrow::datatypes::SchemaRef;
use onefold_connector::{Options, SinkDefinition, SinkRequest, SinkSpec};
use onefold_plan::stream::{StreamingPlan, visible_schema};
use onefold_types::{Error, OptionMap, Result};
use std::sync::Arc;
use uuid::Uuid;

/// What needs no checkpoint of a query's definition.
pub(super) struct Described {
    pub(super) name: Option<String>,
    pub(super) plan: Arc<StreamingPlan>,
    pub(super) sink: Arc<dyn SinkDefinition>,
    pub(super) record: SinkRecord,
    pub(super) further: Vec<FurtherSink>,
    /// The columns of dead letters, where the main sink takes them.
    pub(super) letters_in_main: Option<SchemaRef>,
    pub(super) conf: Conf,
    pub(super) checkpoint: Option<String>,
}

/// Where a checkpoint goes.
pub(super) enum Location {
    Given(String),
    Temporary,
}

impl Described {
    /// The option, else a folder below the session's setting, else a temporary folder for sinks
    /// whose output goes with the process.
    pub(super) fn checkpoint_location(&self, session: &Session) -> Result<Location> {
        if let Some(location) = &self.checkpoint {
            return Ok(Location::Given(location.clone()));
        }
        if let Some(root) = session.inner.conf.get("spark.sql.streaming.checkpointLocation") {
            let folder = self.name.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
            return Ok(Location::Given(format!("{}/{folder}", root.trim_end_matches('/'))));
        }
        let format = self.record.format.as_deref().unwrap_or_default();
        if OUTPUT_OF_PROCESS.contains(&format) || FUNCTIONS.contains(&format) {
            return Ok(Location::Temporary);
        }
        Err(Error::invalid(
            "the query has no checkpoint, without which a restart would deliver everything again; \
             set option checkpointLocation, or setting spark.sql.streaming.checkpointLocation",
        ))
    }
}

impl DataStreamWriter {
    pub(super) fn define(self) -> Result<QueryDefinition> {
        let session = self.session.clone();
        let (output_mode, trigger) = (self.output_mode, self.trigger);
        let observers = self.observers.clone();
        let mut described = self.described()?;
        let location = described.checkpoint_location(&session)?;
        let checkpoint = open_checkpoint(&session, location, &described.conf)?;
        Ok(QueryDefinition {
            name: described.name.take(),
            plan: described.plan,
            observers,
            sink: described.sink,
            sink_record: described.record,
            further_sinks: described.further,
            letters_in_main: described.letters_in_main,
            output_mode,
            trigger,
            conf: described.conf,
            checkpoint,
        })
    }

    /// Checks everything that needs no checkpoint.
    pub(super) fn described(mut self) -> Result<Described> {
        let wanted = self.wanted_beside();
        let ttl = self.options_below(TTL_PREFIX);
        let mut own = OptionMap::new();
        for name in WRITER_OPTIONS.iter().map(|row| row.name) {
            if let Some(value) = self.options.remove(name) {
                own.set(name, value);
            }
        }
        let own = Options::check("writeStream", WRITER_TABLE, own)?;
        let name = self.query_name.take().or_else(|| own.text("queryName").map(str::to_owned));
        let conf = self.conf(&own)?;
        let path = own.text("path").map(str::to_owned);
        let plan =
            StreamingPlan::with_side_rows(self.plan.clone(), self.output_mode, wanted.rows())?;
        let shown = ["console", "memory"].iter().any(|it| self.format.as_deref() == Some(*it));
        if self.sink.is_none() && !shown {
            distinct_columns::check(&visible_schema(self.plan.schema().as_arrow()))?;
        }
        let plan = Arc::new(plan.with_ttl(&ttl_options(&conf, &ttl)?)?);
        let further = self.further_sinks(wanted, &plan, name.as_deref())?;
        let (sink, record) = self.define_sink(path, name.clone())?;
        let letters_in_main = further::letters_in_main(sink.as_ref(), &further, &plan)?;
        let checkpoint = own.text("checkpointLocation").map(str::to_owned);
        Ok(Described { name, plan, sink, record, further, letters_in_main, conf, checkpoint })
    }

    /// The session's settings with those that the query sets for itself.
    fn conf(&mut self, own: &Options) -> Result<Conf> {
        let mut settings: Vec<(String, String)> = self
            .options
            .iter()
            .filter_map(|(name, value)| {
                let row = SETTINGS.iter().find(|row| row.name.eq_ignore_ascii_case(name))?;
                Some((row.name.to_owned(), value.to_owned()))
            })
            .collect();
        for (name, _) in &settings {
            self.options.remove(name);
        }
        let own_of_sink = |name: &str| self.sink_spec().is_ok_and(|spec| has_option(spec, name));
        let unknown = self.options.iter().map(|(name, _)| name.to_owned());
        let mut unknown = unknown.filter(|name| name.to_lowercase().starts_with("onefold."));
        if let Some(name) = unknown.find(|name| !own_of_sink(name)) {
            Options::check("writeStream", SETTING_TABLE, OptionMap::new().with(name, ""))?;
        }
        if own.flag("requireExactlyOnce") {
            settings.push(("onefold.requireExactlyOnce".to_owned(), "true".to_owned()));
        }
        let of_query = std::mem::take(&mut self.settings);
        let of_query = of_query.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.session.inner.conf.snapshot().with(of_query.chain(settings))
    }

    fn define_sink(
        &mut self,
        path: Option<String>,
        query_name: Option<String>,
    ) -> Result<(Arc<dyn SinkDefinition>, SinkRecord)> {
        let options = std::mem::take(&mut self.options);
        let partition_by = std::mem::take(&mut self.partition_by);
        if let Some(sink) = self.sink.take() {
            if !options.is_empty() {
                return Err(Error::invalid(
                    "a sink of one's own takes its options where it is made, not here",
                ));
            }
            let format = self.sink_name.map(str::to_owned);
            return Ok((sink, SinkRecord { path, partition_by, format, ..SinkRecord::default() }));
        }
        let spec = self.sink_spec()?;
        let options = check_sink_options(spec, options)?;
        let record = SinkRecord {
            format: Some(spec.name.to_owned()),
            path: path.clone(),
            partition_by: partition_by.clone(),
            options: shown_options(spec, &options),
        };
        let output_mode = self.output_mode;
        let request = SinkRequest { options, path, partition_by, query_name, output_mode };
        Ok(((spec.define)(request)?, record))
    }

    pub(super) fn sink_spec(&self) -> Result<&'static SinkSpec> {
        // As in Spark, a query that names no format writes Parquet.
        self.known_sink(self.format.as_deref().unwrap_or("parquet"))
    }

    pub(super) fn known_sink(&self, format: &str) -> Result<&'static SinkSpec> {
        let known = self.session.inner.connectors.sinks;
        known.iter().find(|spec| spec.name.eq_ignore_ascii_case(format)).copied().ok_or_else(|| {
            Error::invalid(format!(
                "there is no sink `{format}`; there are {}",
                names(known.iter().map(|spec| spec.name))
            ))
        })
    }
}

fn open_checkpoint(session: &Session, location: Location, conf: &Conf) -> Result<CheckpointPlace> {
    let (location, temporary) = match location {
        Location::Given(location) => (location, None),
        Location::Temporary => {
            let folder = format!("onefold-temporary-{}", Uuid::new_v4());
            let folder = std::env::temp_dir().join(folder);
            (folder.to_string_lossy().into_owned(), Some(folder))
        }
    };
    let opening = (session.inner.stores)(location, conf.values().clone());
    let store = session.inner.tasks.wait(opening)?;
    Ok(CheckpointPlace { store, temporary })
}
