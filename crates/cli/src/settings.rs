//! `onefold settings`: what may be set for a session or, in a pipeline, with SET.

use crate::args::SettingsArgs;
use crate::exit::Failure;
use crate::option_table;
use crate::terminal;
use onefold_engine::SETTINGS;

/// Lists the settings.
///
/// # Errors
/// None; it has the shape of all commands.
pub fn list(args: &SettingsArgs) -> Result<(), Failure> {
    let rows = option_table::rows(&[SETTINGS]);
    if args.json {
        terminal::json(&rows);
    } else if args.markdown {
        terminal::line(&page(&option_table::markdown("setting", &rows)));
    } else {
        option_table::text("setting", &rows).iter().for_each(|row| terminal::line(row));
    }
    Ok(())
}

fn page(table: &str) -> String {
    format!(
        "# Settings\n\n\
         Generated from the table in code: `onefold settings --markdown`.\n\
         They are set with `--conf KEY=VALUE`, in a pipeline with `SET key = value;` before the table, in Rust with\n\
         `session().conf(key, value)`. Names are compared without case. Other settings under `spark.` are accepted and kept, and\n\
         change nothing unless a connector reads them (`spark.hadoop.fs.s3a.endpoint`, for one); an unknown one under `onefold.` is an error.\n\n\
         {}",
        table.trim_end()
    )
}
