//! How long the limit of a control group withheld cores from this process.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the system shows control groups.
const ROOT: &str = "/sys/fs/cgroup";

/// The time for which CPU limits, as containers and jobs have them, withheld cores from this
/// process's control groups and those around them, summed over cores. Other processes of the same
/// groups are included.
pub(super) fn throttled() -> Duration {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().filter_map(|line| folder(Path::new(ROOT), line)).map(|own| summed(&own)).sum()
}

/// The folder of the group that a line of `/proc/self/cgroup` names, below `root`: that of version
/// 2, or that of the CPU controller of version 1.
fn folder(root: &Path, line: &str) -> Option<PathBuf> {
    let (_, line) = line.split_once(':')?;
    let (controllers, path) = line.split_once(':')?;
    let root = match controllers {
        "" => root.to_owned(),
        names if names.split(',').any(|name| name == "cpu") => root.join("cpu"),
        _ => return None,
    };
    Some(root.join(path.trim_start_matches('/')))
}

/// The sum over a group and those around it. In a container, the groups outside it, and with them
/// the path of its own, may not exist: its own is then the root.
fn summed(own: &Path) -> Duration {
    let stats = own.ancestors().filter_map(|group| fs::read_to_string(group.join("cpu.stat")).ok());
    stats.map(|stat| in_stat(&stat)).sum()
}

/// Parses `cpu.stat`, which has microseconds in version 2 and nanoseconds in version 1.
fn in_stat(text: &str) -> Duration {
    let found = text.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_usec", us) => us.parse().ok().map(Duration::from_micros),
        ("throttled_time", ns) => ns.parse().ok().map(Duration::from_nanos),
        _ => None,
    });
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a unit or a version is mixed up; the limit of a group around the own one, such as
    /// a pod's, is not counted.
    #[test]
    fn limits_of_all_groups_around_the_process_count() {
        let root = tempfile::tempdir().unwrap();
        let write = |group: &str, text: &str| {
            fs::create_dir_all(root.path().join(group)).unwrap();
            fs::write(root.path().join(group).join("cpu.stat"), text).unwrap();
        };
        write("pod/container", "usage_usec 7\nnr_throttled 3\nthrottled_usec 2000\n");
        write("pod", "throttled_usec 5000\n");
        write("", "usage_usec 9\n");
        write("cpu/job", "nr_periods 8\nnr_throttled 1\nthrottled_time 11000000\n");
        let ms = |line: &str| folder(root.path(), line).map(|own| summed(&own).as_millis());
        assert_eq!(ms("0::/pod/container"), Some(7));
        assert_eq!(ms("4:cpu,cpuacct:/job"), Some(11));
        assert_eq!(ms("0::/outside/of/this/container"), Some(0));
        assert_eq!((ms("3:cpuset:/job"), ms("nonsense")), (None, None));
    }
}
