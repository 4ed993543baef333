//! Rows that leave a batch beside its result, on their way into the sinks that want them.

use super::definition::{Beside, QueryDefinition};
use super::sinks::Sinks;
use super::stage::{AllRead, leaving};
use futures::future::{try_join, try_join_all};
use onefold_connector::{Attempt, StagedOutput};
use onefold_plan::stream::{SideReceiver, SideSender, side_rows};
use onefold_types::{Error, Result};
use std::sync::Arc;

/// Where a batch's plan sends them.
pub(super) struct Senders {
    pub(super) late_rows: Option<SideSender>,
    pub(super) dead_letters: Option<SideSender>,
}

/// Where they come out.
pub(super) struct WaysOut {
    late_rows: Option<SideReceiver>,
    dead_letters: Option<SideReceiver>,
}

/// What was staged of them.
pub(super) struct StagedBeside {
    /// For the main sink.
    pub(super) in_main: Option<StagedOutput>,
    /// For the further sinks that they go to, by their places among all sinks.
    pub(super) further: Vec<(usize, Vec<StagedOutput>)>,
}

impl WaysOut {
    /// Those that a query wants.
    pub(super) fn of(definition: &QueryDefinition) -> (Senders, WaysOut) {
        let wanted = |rows: Beside| definition.further_sinks.iter().any(|it| it.rows == rows);
        let letters = wanted(Beside::DeadLetters) || definition.letters_in_main.is_some();
        let (late_to, late_rows) = wanted(Beside::LateRows).then(side_rows).unzip();
        let (letters_to, dead_letters) = letters.then(side_rows).unzip();
        let senders = Senders { late_rows: late_to, dead_letters: letters_to };
        (senders, WaysOut { late_rows, dead_letters })
    }

    /// Stages them while the batch's plan runs and until it is read.
    pub(super) async fn stage(
        mut self,
        definition: &QueryDefinition,
        sinks: &Sinks,
        attempt: &Attempt,
        all: &AllRead,
    ) -> Result<StagedBeside> {
        let mut further = Vec::with_capacity(definition.further_sinks.len());
        for (place, it) in (1..).zip(&definition.further_sinks) {
            if it.rows == Beside::Result {
                continue;
            }
            let rows = leaving(Arc::clone(&it.schema), self.take(it.rows)?, all);
            let sink = sinks.at(place)?;
            further.push(async move {
                sink.stage(attempt, 0, rows).await.map(|staged| (place, vec![staged]))
            });
        }
        let in_main = match &definition.letters_in_main {
            Some(schema) => Some(leaving(Arc::clone(schema), self.take(Beside::DeadLetters)?, all)),
            None => None,
        };
        let in_main = async {
            let Some(rows) = in_main else { return Ok(None) };
            // Behind the partitions of the result.
            let partition = u32::try_from(all.partitions()).map_err(|_| too_many())?;
            sinks.at(0)?.stage_dead_letters(attempt, partition, rows).await.map(Some)
        };
        let (further, in_main) = try_join(try_join_all(further), in_main).await?;
        Ok(StagedBeside { in_main, further })
    }

    fn take(&mut self, rows: Beside) -> Result<SideReceiver> {
        let way = match rows {
            Beside::LateRows => self.late_rows.take(),
            Beside::DeadLetters => self.dead_letters.take(),
            Beside::Result => None,
        };
        way.ok_or_else(|| Error::internal(format!("there is no way out for {}", rows.name())))
    }
}

fn too_many() -> Error {
    Error::invalid("a batch has more partitions than can be numbered")
}
