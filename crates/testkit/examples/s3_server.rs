//! The S3 server as a process of its own, for tests in other languages: it outlives the processes
//! that they kill.
//!
//! The first line of its output is JSON: the bucket's URL, and the environment by which a client
//! reaches it. Then each line of input is a question: `uploads` asks how many uploads are neither
//! completed nor aborted, `requests` how many requests came. It ends when its input does.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use onefold_testkit::S3Server;
use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let server = S3Server::start()?;
    let pairs: Vec<String> =
        server.environment().iter().map(|(name, value)| format!("{name:?}:{value:?}")).collect();
    println!("{{\"url\":{:?},\"env\":{{{}}}}}", server.url(""), pairs.join(","));
    io::stdout().flush()?;
    for question in io::stdin().lock().lines() {
        match question?.trim() {
            "uploads" => println!("{}", server.open_uploads()),
            "requests" => println!("{}", server.requests().len()),
            other => println!("unknown question {other:?}"),
        }
        io::stdout().flush()?;
    }
    Ok(())
}
