//! A real PostgreSQL on loopback.

use crate::Failure;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that ends with this.
pub struct Server {
    script: Child,
    port: u64,
    /// What clients connect to.
    pub url: String,
}

impl Server {
    /// Starts what `scripts/postgres.sh` runs. Its log of changes may grow to what is written here, as
    /// a server that is loaded in bulk is set up.
    pub fn start() -> Result<Server, Failure> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres.sh");
        let mut script = Command::new(script)
            .args(["serve", "max_wal_size=4GB", "shared_buffers=512MB"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = script.stdout.take().ok_or("the script has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let about: serde_json::Value = serde_json::from_str(&line)?;
        let port = about.get("port").and_then(serde_json::Value::as_u64);
        let port = port.ok_or("the server does not start")?;
        let url = format!("jdbc:postgresql://127.0.0.1:{port}/postgres?user=onefold");
        Ok(Server { script, port, url })
    }

    /// What psql prints for a text of commands.
    pub fn psql(&self, text: &str) -> Result<String, Failure> {
        let mut psql = Command::new("psql")
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "onefold"])
            .args(["-d", "postgres", "-XAtq", "-v", "ON_ERROR_STOP=1", "-f", "-"])
            .env_remove("LD_LIBRARY_PATH")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = psql.stdin.take() {
            input.write_all(text.as_bytes())?;
        }
        let output = psql.wait_with_output()?;
        if !output.status.success() {
            return Err(format!("psql failed: {text}").into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// An empty table; what was written before is on disk, and is nobody's burden any more.
    pub fn table(&self, name: &str, columns: &str) -> Result<(), Failure> {
        let text = format!(
            "DROP TABLE IF EXISTS {name};\nDROP TABLE IF EXISTS onefold_marks;\n\
             CREATE TABLE {name} ({columns});\nCHECKPOINT;\n"
        );
        self.psql(&text).map(|_| ())
    }

    /// # Errors
    /// A query gives another number.
    pub fn expect(&self, query: &str, number: u64) -> Result<(), Failure> {
        let found = self.psql(&format!("{query};\n"))?;
        match found.trim() == number.to_string() {
            true => Ok(()),
            false => Err(format!("{query} gives {found} and not {number}").into()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        // The script ends what it began.
        let _ = self.script.wait();
    }
}
