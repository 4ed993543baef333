//! The next compact file, written while batches before it run.

use super::super::names::DataFile;
use super::line::{VERSION, push};
use super::{Files, Line, Retention, path_of};
use crate::stored_lines::{LineReader, append_lines};
use bytes::Bytes;
use onefold_storage::{Staged, StagedWriter, Store};
use onefold_types::{BatchId, Error, Result};
use serde::Deserialize;
use std::borrow::Cow;

/// A compact file that nobody sees yet. It holds the lines of all batches before `next`; the batch
/// that owns it appends its own and gives it its name. Memory stays bounded however long it is.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The batch whose mark it will be.
    pub(super) batch: BatchId,
    writer: Box<dyn StagedWriter>,
    /// The first batch that it does not hold.
    next: BatchId,
    rule: Rule,
}

/// Which lines stay.
#[derive(Debug, Clone, Copy)]
struct Rule {
    oldest_ms: Option<i64>,
    oldest_batch: Option<BatchId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Aged<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    modification_time: i64,
}

impl Rule {
    /// Whether any line may be too old to stay.
    fn leaves_out(self) -> bool {
        self.oldest_ms.is_some() || self.oldest_batch.is_some()
    }

    fn keeps(self, line: &str, file: &str) -> Result<bool> {
        let line: Aged = serde_json::from_str(line).map_err(|e| {
            Error::corrupt(format!(
                "{file} holds a line that is not an entry of a file sink's manifest; restore it \
                 from a backup"
            ))
            .because(e)
        })?;
        let young = self.oldest_ms.is_none_or(|oldest| line.modification_time >= oldest);
        let recent = self.oldest_batch.is_none_or(|oldest| {
            DataFile::parse(&line.path).is_none_or(|file| file.batch >= oldest)
        });
        Ok(young && recent)
    }
}

impl Ahead {
    pub(super) async fn start(
        store: &dyn Store,
        batch: BatchId,
        tag: &str,
        retention: Retention,
        now_ms: i64,
    ) -> Result<Ahead> {
        let mut writer = store.stage_record(&path_of(batch, true), tag).await?;
        writer.write(Bytes::from_static(VERSION.as_bytes())).await?;
        let age = retention.age_ms.map(|age| i64::try_from(age).unwrap_or(i64::MAX));
        let rule = Rule {
            oldest_ms: age.map(|age| now_ms.saturating_sub(age)),
            oldest_batch: retention
                .batches
                .map(|count| BatchId((batch.0 + 1).saturating_sub(count))),
        };
        Ok(Ahead { batch, writer, next: BatchId::FIRST, rule })
    }

    /// Copies the lines of all batches up to `through`, included.
    pub(super) async fn copy(
        &mut self,
        store: &dyn Store,
        files: &Files,
        through: BatchId,
    ) -> Result<()> {
        if self.next == BatchId::FIRST {
            let compact = files.range(..=through).rev().find(|(_, form)| form.compact);
            if let Some((batch, form)) = compact {
                self.copy_file(store, &path_of(*batch, form.compact)).await?;
                self.next = batch.next();
            }
        }
        while self.next <= through {
            self.copy_file(store, &path_of(self.next, false)).await?;
            self.next = self.next.next();
        }
        Ok(())
    }

    async fn copy_file(&mut self, store: &dyn Store, path: &str) -> Result<()> {
        let file = format!("{}/{path}", store.url());
        let mut lines = LineReader::new(store, path);
        match lines.next().await.map_err(|e| missing(&file, e))? {
            None => return Err(missing(&file, Error::corrupt("it is empty"))),
            Some(first) if first.trim_ascii_end() == VERSION.as_bytes() => {}
            Some(_) => return Err(missing(&file, Error::corrupt("its first line is not `v1`"))),
        }
        let rule = self.rule;
        let keeps = rule
            .leaves_out()
            .then_some(|line: &[u8]| rule.keeps(&String::from_utf8_lossy(line), &file));
        append_lines(&mut lines, self.writer.as_mut(), keeps, |e| missing(&file, e)).await
    }

    /// Appends the lines of the batch itself and makes the file durable, still unseen.
    pub(super) async fn close(mut self, lines: &[Line]) -> Result<Staged> {
        let mut text = String::new();
        for line in lines {
            push(&mut text, line)?;
        }
        self.writer.write(Bytes::from(text)).await?;
        self.writer.finish().await
    }
}

fn missing(file: &str, cause: Error) -> Error {
    Error::corrupt(format!(
        "{file} is needed to compact the manifest but cannot be read; move it away if it is there, \
         and make it again with `onefold checkpoint repair`"
    ))
    .because(cause)
}
