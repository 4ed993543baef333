//! runs queries: trigger, ask protocol, act; progress, listeners, metrics.
