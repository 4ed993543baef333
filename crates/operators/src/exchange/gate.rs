//! Channels from every input to every output that hold no more than needed: a sender waits while
//! every output that is still read has something to read.

use crate::failure;
use arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Debug)]
struct Shared {
    queues: Mutex<Vec<Queue>>,
    /// Woken when an output has run empty or is gone.
    hungry: Notify,
}

#[derive(Debug)]
struct Queue {
    batches: VecDeque<Result<RecordBatch>>,
    /// Inputs that may still send.
    inputs: usize,
    /// Whether somebody reads it.
    read: bool,
    /// Woken when there is something to read or an input is through.
    fed: Arc<Notify>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One input's end of the channel to one output.
#[derive(Debug)]
pub(super) struct Sender {
    shared: Arc<Shared>,
    output: usize,
}

/// An output's end.
#[derive(Debug)]
pub(super) struct Receiver {
    shared: Arc<Shared>,
    output: usize,
    fed: Arc<Notify>,
}

/// A sender for each output, to be cloned for each input, and a receiver for each output.
pub(super) fn channels(outputs: usize) -> (Vec<Sender>, Vec<Receiver>) {
    let queues = (0..outputs).map(|_| Queue {
        batches: VecDeque::new(),
        inputs: 0,
        read: true,
        fed: Arc::default(),
    });
    let shared = Arc::new(Shared { queues: Mutex::new(queues.collect()), hungry: Notify::new() });
    let receivers = (0..outputs).map(|output| Receiver {
        shared: Arc::clone(&shared),
        output,
        fed: shared.lock().get(output).map(|queue| Arc::clone(&queue.fed)).unwrap_or_default(),
    });
    let receivers = receivers.collect();
    let senders = (0..outputs).map(|output| Sender::new(&shared, output)).collect();
    (senders, receivers)
}

/// Tells every output why an input ended.
pub(super) fn fail_all(senders: &[Sender], error: DataFusionError) {
    let error = Arc::new(error);
    for sender in senders {
        sender.push(Err(DataFusionError::Shared(Arc::clone(&error))));
    }
}

impl Sender {
    fn new(shared: &Arc<Shared>, output: usize) -> Self {
        if let Some(queue) = shared.lock().get_mut(output) {
            queue.inputs += 1;
        }
        Sender { shared: Arc::clone(shared), output }
    }

    /// Sends when some output has nothing to read; drops what nobody reads.
    pub(super) async fn send(&self, batch: Result<RecordBatch>) {
        loop {
            let hungry = self.shared.hungry.notified();
            tokio::pin!(hungry);
            // Registered before looking, so that no wake-up is missed.
            hungry.as_mut().enable();
            let open = {
                let queues = self.shared.lock();
                let mut read = queues.iter().filter(|queue| queue.read).peekable();
                read.peek().is_none() || read.any(|queue| queue.batches.is_empty())
            };
            if open {
                break;
            }
            hungry.await;
        }
        self.push(batch);
    }

    fn push(&self, batch: Result<RecordBatch>) {
        let mut queues = self.shared.lock();
        if let Some(queue) = queues.get_mut(self.output).filter(|queue| queue.read) {
            queue.batches.push_back(batch);
            queue.fed.notify_one();
        }
    }
}

impl Clone for Sender {
    fn clone(&self) -> Self {
        Sender::new(&self.shared, self.output)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if let Some(queue) = self.shared.lock().get_mut(self.output) {
            queue.inputs -= 1;
            queue.fed.notify_one();
        }
    }
}

impl Receiver {
    /// The next batch; `None` when every input is through.
    pub(super) async fn receive(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            {
                let mut queues = self.shared.lock();
                let Some(queue) = queues.get_mut(self.output) else {
                    return Some(Err(failure::internal("an output of an exchange is missing")));
                };
                if let Some(batch) = queue.batches.pop_front() {
                    if queue.batches.is_empty() {
                        self.shared.hungry.notify_waiters();
                    }
                    return Some(batch);
                }
                if queue.inputs == 0 {
                    return None;
                }
            }
            // A permit is kept when it comes before this waits.
            self.fed.notified().await;
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(queue) = self.shared.lock().get_mut(self.output) {
            queue.read = false;
            queue.batches.clear();
        }
        self.shared.hungry.notify_waiters();
    }
}
