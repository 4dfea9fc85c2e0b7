//! Memory, processor time and open files of this process, under the names that Prometheus' own libraries use.

use std::fs;

use bruit_protocols::prometheus::Family;

/// Ticks per second in `/proc` (`USER_HZ`). There are 100 on every architecture that Linux supports except Alpha.
const TICKS: f64 = 100.0;

/// Returns the values in `/proc`. Unreadable ones are omitted.
pub(super) fn families() -> Vec<Family> {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let (status, stat) = (read("/proc/self/status"), read("/proc/self/stat"));
    let max_fds = open_files_max(&read("/proc/self/limits"));
    let started = started_seconds(&stat, &read("/proc/stat"));
    let of = |family: Family, value: Option<f64>| value.map(|value| family.with(value));
    let families = [
        of(
            Family::counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds."),
            cpu_seconds(&stat),
        ),
        of(
            Family::gauge("process_resident_memory_bytes", "Resident memory size in bytes."),
            status_bytes(&status, "VmRSS:"),
        ),
        of(
            Family::gauge("process_virtual_memory_bytes", "Virtual memory size in bytes."),
            status_bytes(&status, "VmSize:"),
        ),
        of(
            Family::gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds."),
            started,
        ),
        of(Family::gauge("process_open_fds", "Number of open file descriptors."), open_files()),
        of(Family::gauge("process_max_fds", "Maximum number of open file descriptors."), max_fds),
    ];
    families.into_iter().flatten().collect()
}

/// Returns the fields of `/proc/self/stat`, starting with the third. The second, the name, may contain blanks and
/// parentheses.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut ticks = fields(stat).skip(11).map(str::parse::<f64>);
    Some((ticks.next()?.ok()? + ticks.next()?.ok()?) / TICKS)
}

fn started_seconds(stat: &str, system: &str) -> Option<f64> {
    let since_boot: f64 = fields(stat).nth(19)?.parse().ok()?;
    let boot: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + since_boot / TICKS)
}

/// Returns a size in `/proc/self/status`, which is in kilobytes.
fn status_bytes(status: &str, name: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

fn open_files_max(limits: &str) -> Option<f64> {
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?;
    if limit == "unlimited" { Some(f64::INFINITY) } else { limit.parse().ok() }
}

fn open_files() -> Option<f64> {
    // Subtract the descriptor of the directory being read.
    Some((fs::read_dir("/proc/self/fd").ok()?.count() as f64 - 1.0).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bruit_protocols::prometheus::text;

    #[test]
    fn the_fields_of_proc_are_found_whatever_the_process_is_called() {
        let stat = "7 (bru) it) S 1 7 7 0 -1 4194304 9 0 0 0 150 50 0 0 20 0 9 0 1234 1000 20 18446744073709551615";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(started_seconds(stat, "cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_012.34));
        assert_eq!(status_bytes("VmPeak:\t 9 kB\nVmRSS:\t    12 kB\n", "VmRSS:"), Some(12_288.0));
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096  files\n";
        assert_eq!(open_files_max(limits), Some(1024.0));
        assert_eq!((cpu_seconds(""), started_seconds("x", ""), open_files_max("")), (None, None, None));
    }

    #[test]
    fn all_of_them_are_there_for_this_process() {
        let text = text(families());
        assert_eq!(text.matches("# TYPE process_").count(), 6, "{text}");
    }
}
