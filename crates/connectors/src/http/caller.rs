//! A call with all its tries: waits for its turn, calls, and calls again where that may help.

use super::addresses::Addresses;
use super::breaker::{Breaker, Gate};
use super::client::{Call, Client, ClientRules, Tried, shown};
use super::limiter::Limiter;
use super::retry::{Heard, Next, RetryRules, next};
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_types::{Error, Reply, Result};
use reqwest::Url;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

/// How calls are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallRules {
    pub(super) client: ClientRules,
    pub(super) retry: RetryRules,
    /// Calls at the same time.
    pub(super) at_once: usize,
    pub(super) per_second: Option<u64>,
    /// Failures in a row after which a receiver is left alone; 0 is never.
    pub(super) failures: u32,
    /// For how long.
    pub(super) cool_down: Duration,
}

/// How a call ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// With a reply that means: done.
    Done(Reply),
    /// With one that means: no, and not later either.
    Refused(Reply),
    /// Without either, after all tries; the last reply, if there was one.
    GaveUp(Option<Reply>, Error),
}

/// Makes calls within limits that all of them share.
#[derive(Debug)]
pub(super) struct Caller {
    rules: CallRules,
    addresses: Arc<Addresses>,
    /// Made when they are first needed: the second one reads the machine's certificates.
    plain: OnceLock<Client>,
    secure: OnceLock<Client>,
    slots: Semaphore,
    limiter: Mutex<Limiter>,
    /// By receiver; none for one that works.
    breakers: Mutex<HashMap<String, Breaker>>,
    heard: Notify,
    began: Instant,
}

impl Caller {
    pub(super) fn new(rules: CallRules, addresses: Addresses) -> Caller {
        Caller {
            addresses: Arc::new(addresses),
            plain: OnceLock::new(),
            secure: OnceLock::new(),
            slots: Semaphore::new(rules.at_once.max(1)),
            limiter: Mutex::new(Limiter::new(rules.per_second)),
            breakers: Mutex::default(),
            heard: Notify::new(),
            began: Instant::now(),
            rules,
        }
    }

    pub(super) fn rules(&self) -> &CallRules {
        &self.rules
    }

    /// Calls until there is an answer, or tries enough.
    ///
    /// # Errors
    /// Invalid: the receiver may not be called, or the call cannot be made.
    pub(super) async fn call(&self, call: &Call) -> Result<Ended> {
        let client = self.client(&call.url)?;
        let receiver = receiver(&call.url);
        let spread = u64::try_from(call.key.0 % 1_048_573).unwrap_or_default();
        let mut tries = 1;
        loop {
            let (tried, heard) = {
                // The semaphore is never closed.
                let _slot = self.slots.acquire().await;
                self.wait_for_turn(&receiver).await;
                crash_point(CrashPoint::CallBefore);
                let tried = client.once(call).await?;
                crash_point(CrashPoint::CallAnswered);
                let heard = match &tried {
                    Tried::Answered(_, heard) => *heard,
                    Tried::Lost(_) => Heard::Nothing,
                };
                self.tell(&receiver, heard.works());
                (tried, heard)
            };
            match (next(&self.rules.retry, heard, tries, spread), tried) {
                (Next::Done, Tried::Answered(reply, _)) => return Ok(Ended::Done(reply)),
                (Next::Refused, Tried::Answered(reply, _)) => return Ok(Ended::Refused(reply)),
                (Next::Again(pause), _) => {
                    tries += 1;
                    tokio::time::sleep(pause).await;
                }
                (_, tried) => return Ok(gave_up(&call.url, tries, tried)),
            }
        }
    }

    async fn wait_for_turn(&self, receiver: &str) {
        loop {
            let heard = self.heard.notified();
            tokio::pin!(heard);
            heard.as_mut().enable();
            let Gate::Wait(wait) = self.ask(receiver) else { break };
            tokio::select! {
                () = heard => {}
                () = tokio::time::sleep(Duration::from_nanos(wait)) => {}
            }
        }
        let wait = locked(&self.limiter).reserve(self.now());
        if wait > 0 {
            tokio::time::sleep(Duration::from_nanos(wait)).await;
        }
    }

    fn ask(&self, receiver: &str) -> Gate {
        let now = self.now();
        locked(&self.breakers).get_mut(receiver).map_or(Gate::Go, |breaker| breaker.ask(now))
    }

    fn tell(&self, receiver: &str, works: bool) {
        let now = self.now();
        let mut breakers = locked(&self.breakers);
        if works && !breakers.contains_key(receiver) {
            return;
        }
        let cool_down = u64::try_from(self.rules.cool_down.as_nanos()).unwrap_or(u64::MAX);
        let breaker = breakers
            .entry(receiver.to_owned())
            .or_insert_with(|| Breaker::new(self.rules.failures, cool_down));
        let woken = breaker.heard(works, now);
        if breaker.at_rest() {
            breakers.remove(receiver);
        }
        drop(breakers);
        if woken {
            self.heard.notify_waiters();
        }
    }

    fn client(&self, url: &Url) -> Result<Client> {
        let tls = url.scheme() == "https";
        let kept = if tls { &self.secure } else { &self.plain };
        if let Some(client) = kept.get() {
            return Ok(client.clone());
        }
        let client = Client::new(&self.rules.client, Arc::clone(&self.addresses), tls)?;
        Ok(kept.get_or_init(|| client).clone())
    }

    /// Nanoseconds since this caller was made.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn receiver(url: &Url) -> String {
    let port = url.port_or_known_default().unwrap_or_default();
    format!("{}:{port}", url.host_str().unwrap_or_default())
}

fn gave_up(url: &Url, tries: u32, tried: Tried) -> Ended {
    let (reply, said) = match tried {
        Tried::Answered(reply, _) => {
            let said = format!("status {}{}", reply.status, excerpt(&reply.body));
            (Some(reply), said)
        }
        Tried::Lost(why) => (None, why),
    };
    let error = Error::unavailable(format!(
        "{} gave no final answer after {tries} tries: {said}; see whether the receiver works, or allow \
         more with maxRetries",
        shown(url)
    ));
    Ended::GaveUp(reply, error)
}

/// The beginning of a reply's text, for messages.
pub(super) fn excerpt(body: &str) -> String {
    let text: String = body.trim().chars().take(200).collect();
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}
