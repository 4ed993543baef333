//! The responses of one operation, kept until the client releases them: a pure queue.

use spark_connect_proto::ExecutePlanResponse;
use std::collections::VecDeque;

/// Where a client wants to go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seek {
    /// The number of the next response to send.
    Found(u64),
    /// No response ever had this id.
    Unknown,
    /// The response was released already.
    Released,
}

/// Responses in order, numbered from 0, with those before `first` released.
#[derive(Debug, Default)]
pub(crate) struct ResponseLog {
    first: u64,
    /// Each with its size.
    responses: VecDeque<(ExecutePlanResponse, usize)>,
    bytes: usize,
    /// The id of the last response that was released, so that a client may go on behind it.
    released: Option<String>,
}

impl ResponseLog {
    /// Adds the newest, which has so many bytes.
    pub(crate) fn push(&mut self, response: ExecutePlanResponse, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.responses.push_back((response, bytes));
    }

    /// The bytes of all that is kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number that the next pushed response gets.
    #[cfg(test)]
    pub(crate) fn end(&self) -> u64 {
        self.first + self.responses.len() as u64
    }

    /// A response by number, if it is there.
    pub(crate) fn get(&self, number: u64) -> Option<&ExecutePlanResponse> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.responses.get(place).map(|(response, _)| response)
    }

    fn number_of(&self, id: &str) -> Option<u64> {
        let place = self.responses.iter().position(|(response, _)| response.response_id == id)?;
        Some(self.first + place as u64)
    }

    /// Where to go on after the response with this id; from the start without one.
    pub(crate) fn seek(&self, after: Option<&str>) -> Seek {
        match after {
            None if self.first == 0 => Seek::Found(0),
            None => Seek::Released,
            Some(id) if self.released.as_deref() == Some(id) => Seek::Found(self.first),
            Some(id) => self.number_of(id).map_or(Seek::Unknown, |number| Seek::Found(number + 1)),
        }
    }

    /// Lets go of everything up to and including the response with this id. An id that is not
    /// there was released before.
    pub(crate) fn release_until(&mut self, id: &str) {
        if let Some(number) = self.number_of(id) {
            self.release_before(number + 1);
        }
    }

    /// Lets go of what was sent before this number, but for the newest of so many bytes.
    pub(crate) fn release_sent(&mut self, next: u64, keep: usize) {
        while self.first < next && self.bytes > keep {
            self.release_before(self.first + 1);
        }
    }

    /// Lets go of everything before this number.
    pub(crate) fn release_before(&mut self, number: u64) {
        while self.first < number {
            let Some((gone, bytes)) = self.responses.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(bytes);
            self.first += 1;
            self.released = Some(gone.response_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ResponseLog, Seek};
    use spark_connect_proto::ExecutePlanResponse;

    fn log(ids: &[&str]) -> ResponseLog {
        let mut log = ResponseLog::default();
        for id in ids {
            let response = ExecutePlanResponse {
                response_id: (*id).to_owned(),
                ..ExecutePlanResponse::default()
            };
            log.push(response, 10);
        }
        log
    }

    #[test]
    fn a_client_goes_on_behind_what_it_saw_last() {
        let log = log(&["a", "b"]);
        assert_eq!(log.seek(None), Seek::Found(0));
        assert_eq!(log.seek(Some("a")), Seek::Found(1));
        assert_eq!(log.seek(Some("b")), Seek::Found(2));
        assert_eq!(log.end(), 2);
        assert_eq!(log.seek(Some("z")), Seek::Unknown);
    }

    #[test]
    fn what_is_released_is_gone_but_its_end_is_known() {
        let mut log = log(&["a", "b", "c"]);
        log.release_until("b");
        assert_eq!(log.seek(Some("b")), Seek::Found(2));
        assert_eq!(log.seek(Some("a")), Seek::Unknown);
        assert_eq!(log.seek(None), Seek::Released);
        assert!(log.get(1).is_none());
        assert_eq!(log.get(2).unwrap().response_id, "c");
        log.release_until("a");
        assert_eq!(log.end(), 3);
    }
}
