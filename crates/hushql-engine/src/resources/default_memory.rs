//! The default limit on memory.
//!
//! In: what Linux reports about the machine and the process's control group. Out: half of the
//! smaller number. A constant on other systems, and if nothing can be read.
//!
//! ```text
//! MemTotal: 16303428 kB, memory.max 4294967296     →     2147483648
//! ```

/// Half of the memory that is assumed if the system does not report any.
const UNKNOWN: usize = 2 << 30;

/// Half of the memory that this process may use, in bytes.
pub(super) fn half_of_the_machine() -> usize {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").as_deref().and_then(total);
    let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let group = groups.into_iter().filter_map(read).filter_map(|text| text.trim().parse().ok());
    group.chain(machine).min().map_or(UNKNOWN, |bytes: usize| bytes / 2)
}

/// The bytes after `MemTotal:`.
fn total(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_how_much_it_has() {
        let text = "MemFree: 1 kB\nMemTotal:       16303428 kB\nSwapTotal: 2 kB\n";
        assert_eq!(total(text), Some(16_303_428 << 10));
        assert_eq!(total("MemTotal: much"), None);
        assert!(half_of_the_machine() > 1 << 20);
    }
}
