//! How much memory the machine gives this process.

/// What is reckoned with where the system does not tell.
const UNKNOWN: u64 = 4 << 30;

/// Where a container's limit stands, in bytes, or `max`.
const CONTAINER_LIMIT: &str = "/sys/fs/cgroup/memory.max";

/// The memory that this process can have: the machine's, or its container's where that is less.
pub(crate) fn available() -> u64 {
    let container = std::fs::read_to_string(CONTAINER_LIMIT).ok();
    let container = container.and_then(|text| text.trim().parse::<u64>().ok());
    machine().min(container.unwrap_or(u64::MAX))
}

#[cfg(target_os = "linux")]
fn machine() -> u64 {
    let info = rustix::system::sysinfo();
    let total = u64::from(info.mem_unit).saturating_mul(info.totalram);
    if total == 0 { UNKNOWN } else { total }
}

#[cfg(not(target_os = "linux"))]
fn machine() -> u64 {
    UNKNOWN
}

#[cfg(test)]
mod tests {
    use super::available;

    #[test]
    fn a_machine_has_more_than_a_few_pages() {
        assert!(available() > 16 << 20);
    }
}
