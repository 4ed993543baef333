//! The HTTP sink and the calls of `http_call`, against a receiver on this machine.

mod calls;
mod conformance;
mod receiver;
mod sink;
