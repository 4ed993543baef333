//! The next compacted file, written while batches before it run.

use super::super::note::{LogEntry, encode_line};
use super::path_of;
use crate::stored_lines::{LineReader, append_lines};
use bytes::Bytes;
use onefold_storage::{CreateError, Created, StagedWriter, Store};
use onefold_types::{Error, Result};

/// A compacted file that nobody sees yet. It holds every entry before `next`. Memory stays bounded
/// however long it is.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The entry whose file it will be.
    pub(super) number: u64,
    writer: Box<dyn StagedWriter>,
    /// The first entry that it does not hold.
    next: u64,
}

impl Ahead {
    pub(super) async fn start(
        store: &dyn Store,
        folder: &str,
        number: u64,
        tag: &str,
    ) -> Result<Ahead> {
        let mut writer = store.stage_record(&path_of(folder, number, true), tag).await?;
        writer.write(Bytes::from_static(b"v1")).await?;
        Ok(Ahead { number, writer, next: 0 })
    }

    /// Copies every entry up to `through`, included, from the compacted file `base` on.
    pub(super) async fn copy(
        &mut self,
        store: &dyn Store,
        folder: &str,
        base: Option<u64>,
        through: u64,
    ) -> Result<()> {
        if self.next == 0
            && let Some(base) = base
        {
            self.copy_file(store, &path_of(folder, base, true)).await?;
            self.next = base + 1;
        }
        while self.next <= through {
            self.copy_file(store, &path_of(folder, self.next, false)).await?;
            self.next += 1;
        }
        Ok(())
    }

    async fn copy_file(&mut self, store: &dyn Store, path: &str) -> Result<()> {
        let damaged = |cause: Option<Error>| {
            let error = Error::corrupt(format!(
                "{path} in {} is needed to compact the source's log but is missing or damaged; run \
                 `onefold checkpoint verify`",
                store.url()
            ));
            match cause {
                Some(cause) => error.because(cause),
                None => error,
            }
        };
        let mut lines = LineReader::new(store, path);
        let first = lines.next().await.map_err(|error| damaged(Some(error)))?;
        if first.as_deref() != Some(b"v1") {
            return Err(damaged(None));
        }
        let all = None::<fn(&[u8]) -> Result<bool>>;
        append_lines(&mut lines, self.writer.as_mut(), all, |error| damaged(Some(error))).await
    }

    /// Appends the entry's own lines and gives the file its name, without a sync.
    pub(super) async fn close(
        mut self,
        entries: &[LogEntry],
    ) -> Result<std::result::Result<Created, CreateError>> {
        let mut text = String::new();
        for entry in entries {
            encode_line(&mut text, entry)?;
        }
        self.writer.write(Bytes::from(text)).await?;
        Ok(self.writer.create_later().await)
    }
}
