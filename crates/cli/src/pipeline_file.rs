//! A pipeline file with what the command line says about it.

use crate::args::PipelineArgs;
use crate::exit::Failure;
use onefold::pipeline::{self, PipelineOptions, TableState};
use onefold::types::{Error, Result};
use onefold::{Explanation, Session, StreamingQuery, Trigger};
use std::path::{Path, PathBuf};

/// Folder of tables without LOCATION and of checkpoints, beside the pipeline file.
const STORAGE: &str = "onefold-data";

/// A pipeline that was read, not yet parsed.
pub struct PipelineFile {
    path: PathBuf,
    text: String,
    options: PipelineOptions,
    conf: Vec<(String, String)>,
}

impl PipelineFile {
    /// Reads the file.
    ///
    /// # Errors
    /// Usage, when it cannot be read.
    pub fn read(args: &PipelineArgs) -> Result<PipelineFile, Failure> {
        let path = args.pipeline.clone();
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Error::invalid(format!("the pipeline {} cannot be read", path.display())).because(error)
        })?;
        let storage = match &args.storage {
            Some(storage) => storage.clone(),
            None => beside(&path)?,
        };
        let options = PipelineOptions {
            trigger: Trigger::default(),
            storage: Some(storage),
            checkpoint: args.checkpoint.clone(),
        };
        Ok(PipelineFile { path, text, options, conf: args.conf.clone() })
    }

    /// A session with the settings of the command line.
    ///
    /// # Errors
    /// Usage, for a setting whose value is not of its kind.
    pub fn session(&self) -> Result<Session> {
        let settings = self.conf.iter();
        settings.fold(onefold::session(), |builder, (key, value)| builder.conf(key, value)).build()
    }

    /// Starts one query a streaming table; if one cannot start, those before it are stopped.
    ///
    /// # Errors
    /// Usage, with line and column where the text does not parse; as starting a query.
    pub fn start(
        &self,
        session: &Session,
        trigger: Trigger,
    ) -> Result<Vec<StreamingQuery>, Failure> {
        let options = PipelineOptions { trigger, ..self.options.clone() };
        pipeline::start(session, &self.text, &options).map_err(|error| self.failure(error))
    }

    /// What each table would do.
    ///
    /// # Errors
    /// As [`PipelineFile::start`], as far as no checkpoint is needed.
    pub fn explain(&self, session: &Session) -> Result<Vec<Explanation>, Failure> {
        pipeline::explain(session, &self.text, &self.options).map_err(|error| self.failure(error))
    }

    /// What each table's query keeps of state.
    ///
    /// # Errors
    /// As [`PipelineFile::explain`].
    pub fn state(&self, session: &Session) -> Result<Vec<TableState>, Failure> {
        pipeline::state(session, &self.text, &self.options).map_err(|error| self.failure(error))
    }

    /// Names the file where the text of the error points into it.
    fn failure(&self, error: Error) -> Failure {
        if error.to_string().starts_with("line ") {
            let text = format!("{}, {}", self.path.display(), error.chain());
            return Error::new(error.kind(), text).into();
        }
        error.into()
    }
}

fn beside(pipeline: &Path) -> Result<String> {
    let absolute = std::path::absolute(pipeline).map_err(|error| {
        Error::invalid(format!("{} cannot be found", pipeline.display())).because(error)
    })?;
    let folder = absolute.parent().unwrap_or(&absolute).join(STORAGE);
    folder.to_str().map(str::to_owned).ok_or_else(|| {
        Error::invalid(format!("{} is not UTF-8 text: give --storage", folder.display()))
    })
}
