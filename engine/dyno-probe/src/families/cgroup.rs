//! Control groups. Measured: what the group of a process used and how long it was held back, from the group's cpu,
//! memory and io files (kernel: admin-guide/cgroup-v2.rst; admin-guide/cgroup-v1/). Costs three or four reads. Wrong:
//! the whole group counts, not only the process; version 1's I/O counts neither reads from the page cache nor what the
//! kernel writes back by itself; nothing is reported for a root group.

use std::fs;
use std::path::{Path, PathBuf};

use crate::collector::{Collector, Failure, Family, Moment, Opened, Subject};
use crate::deltas::Deltas;
use crate::machine::{Machine, Process};
use crate::metric::{Better, Metric, Scope};
use crate::pseudo_file::PseudoFile;
use crate::sample::Sample;
use crate::text::{labelled, lines, number, words};

const fn metric(name: &'static str, better: Better, source: &'static str, meaning: &'static str) -> Metric {
    Metric {
        name,
        scopes: &[Scope::Instance, Scope::Driver],
        better,
        meaning,
        source,
        wrong: "Counts the whole group.",
    }
}

const CPU: Metric = metric(
    "cgroup_cpu_pct",
    Better::None,
    "cpu.stat usage_usec; v1: cpuacct.usage",
    "CPU time of the group; one core busy is 100.",
);
const PERIODS: Metric = metric(
    "cgroup_throttled_periods_pct",
    Better::Lower,
    "cpu.stat nr_throttled, nr_periods",
    "Share of quota periods in which the group was stopped.",
);
const THROTTLED: Metric = metric(
    "cgroup_throttled_us_per_s",
    Better::Lower,
    "cpu.stat throttled_usec; v1: throttled_time",
    "Time that the group's run queues were stopped by the CPU quota, summed over CPUs.",
);
const MEMORY: Metric = metric(
    "cgroup_memory_bytes",
    Better::None,
    "memory.current; v1: memory.usage_in_bytes",
    "Memory charged to the group, page cache included.",
);
const LIMIT_HITS: Metric = metric(
    "cgroup_memory_limit_hits_per_s",
    Better::Lower,
    "memory.events high, max; v1: memory.failcnt",
    "Times that the group ran into a memory limit and had to reclaim.",
);
const OOM_KILLS: Metric = metric(
    "cgroup_oom_kills_per_s",
    Better::Lower,
    "memory.events oom_kill; v1: memory.oom_control",
    "Processes of the group killed for its limit.",
);
const READ: Metric = metric(
    "cgroup_io_read_bytes_per_s",
    Better::None,
    "io.stat rbytes; v1: blkio.throttle.io_service_bytes",
    "Bytes read from all devices and charged to the group.",
);
const WRITE: Metric = metric(
    "cgroup_io_write_bytes_per_s",
    Better::None,
    "io.stat wbytes; v1: blkio.throttle.io_service_bytes",
    "Bytes written to all devices and charged to the group.",
);

/// The family.
pub const FAMILY: Family = Family {
    name: "cgroup",
    subject: Subject::Process(open),
    metrics: &[&[CPU, PERIODS, THROTTLED, MEMORY, LIMIT_HITS, OOM_KILLS, READ, WRITE]],
};

// Counters in their order below.
const USAGE_NS: usize = 0;
const PERIOD_COUNT: usize = 1;
const THROTTLED_COUNT: usize = 2;
const THROTTLED_NS: usize = 3;
const HITS: usize = 4;
const KILLS: usize = 5;
const READ_BYTES: usize = 6;
const WRITE_BYTES: usize = 7;
const COUNTERS: usize = 8;

/// What one reading of the group's files says.
#[derive(Debug, Default, PartialEq)]
struct Reading {
    counters: [Option<u64>; COUNTERS],
    memory: Option<u64>,
}

type Parser = fn(&[u8], &mut Reading);

/// Files of version 2, in the one folder of the group.
const UNIFIED: [(&str, Parser); 4] = [
    ("cpu.stat", cpu_stat),
    ("memory.current", memory_current),
    ("memory.events", memory_events),
    ("io.stat", io_stat),
];

/// Files of version 1, each with the controller in whose hierarchy it is.
const LEGACY: [(&str, &str, Parser); 6] = [
    ("cpu", "cpu.stat", cpu_stat),
    ("cpuacct", "cpuacct.usage", |content, reading| {
        reading.counters[USAGE_NS] = whole(content)
    }),
    ("memory", "memory.usage_in_bytes", memory_current),
    ("memory", "memory.failcnt", |content, reading| {
        reading.counters[HITS] = whole(content)
    }),
    ("memory", "memory.oom_control", |content, reading| {
        reading.counters[KILLS] = find(content, b"oom_kill")
    }),
    ("blkio", "blkio.throttle.io_service_bytes", blkio_service_bytes),
];

fn whole(content: &[u8]) -> Option<u64> {
    words(lines(content).next()?).next().and_then(number)
}

fn find(content: &[u8], key: &[u8]) -> Option<u64> {
    lines(content).find_map(|line| labelled(line, key))
}

fn memory_current(content: &[u8], reading: &mut Reading) {
    reading.memory = whole(content);
}

fn cpu_stat(content: &[u8], reading: &mut Reading) {
    let microseconds = |key| find(content, key).and_then(|value| value.checked_mul(1000));
    if let Some(usage_ns) = microseconds(b"usage_usec") {
        reading.counters[USAGE_NS] = Some(usage_ns);
    }
    reading.counters[PERIOD_COUNT] = find(content, b"nr_periods");
    reading.counters[THROTTLED_COUNT] = find(content, b"nr_throttled");
    reading.counters[THROTTLED_NS] = microseconds(b"throttled_usec").or_else(|| find(content, b"throttled_time"));
}

fn memory_events(content: &[u8], reading: &mut Reading) {
    reading.counters[HITS] = find(content, b"high")
        .zip(find(content, b"max"))
        .and_then(|(high, max)| high.checked_add(max));
    reading.counters[KILLS] = find(content, b"oom_kill");
}

/// Lines of `MAJ:MIN rbytes=1 wbytes=2 rios=3 …`, summed over devices; an empty file is a group that did no I/O.
fn io_stat(content: &[u8], reading: &mut Reading) {
    let sum = |key: &[u8]| {
        let values = lines(content)
            .flat_map(words)
            .filter_map(|word| word.strip_prefix(key))
            .map(number);
        values.sum::<Option<u64>>()
    };
    reading.counters[READ_BYTES] = sum(b"rbytes=");
    reading.counters[WRITE_BYTES] = sum(b"wbytes=");
}

/// Lines of `MAJ:MIN Read 1`, `MAJ:MIN Write 2`, …, summed over devices; a group that did no I/O has only `Total 0`.
fn blkio_service_bytes(content: &[u8], reading: &mut Reading) {
    let sum = |kind: &[u8]| {
        let of_kind = lines(content).filter_map(|line| {
            let mut words = words(line);
            words.next()?;
            (words.next()? == kind).then(|| words.next().and_then(number))
        });
        of_kind.sum::<Option<u64>>()
    };
    if lines(content).any(|line| line.starts_with(b"Total")) {
        reading.counters[READ_BYTES] = sum(b"Read");
        reading.counters[WRITE_BYTES] = sum(b"Write");
    }
}

struct Cgroup {
    scope: String,
    prefix: &'static str,
    files: Vec<(PseudoFile, Parser)>,
    deltas: Deltas,
}

fn open(machine: &Machine, process: &Process) -> Opened {
    let membership = process.folder(machine).join("cgroup");
    let mut buffer = Vec::new();
    let content = PseudoFile::open(&membership)?.read(&mut buffer)?.to_vec();
    let groups = Groups::of(machine, &String::from_utf8_lossy(&content));
    let mut files = Vec::new();
    let mut add = |folder: Option<&Path>, name: &str, parser: Parser| {
        // A controller that is not enabled for the group has no file there.
        let file = folder.and_then(|folder| PseudoFile::open(folder.join(name)).ok());
        files.extend(file.map(|file| (file, parser)));
    };
    for (name, parser) in UNIFIED {
        add(groups.unified.as_deref(), name, parser);
    }
    for (controller, name, parser) in LEGACY {
        add(groups.legacy(controller), name, parser);
    }
    if files.is_empty() {
        let what = "names no group with accounting: the process is in root groups";
        return Err(Failure::Gone(format!("{} {what}", membership.display())));
    }
    Ok(Box::new(Cgroup {
        scope: process.scope(),
        prefix: process.prefix(),
        files,
        deltas: Deltas::new(COUNTERS),
    }))
}

impl Collector for Cgroup {
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure> {
        let mut reading = Reading::default();
        for (file, parser) in &self.files {
            parser(file.read(moment.buffer)?, &mut reading);
        }
        self.deltas.advance(moment.clock.monotonic_ns(), &reading.counters);
        moment.backwards += self.deltas.backwards();
        let deltas = &self.deltas;
        let role = self.prefix;
        let scope = sample.scope(&self.scope);
        scope.of_process(role, &CPU, deltas.rate(USAGE_NS).map(|rate| rate / 1e7));
        scope.of_process(role, &PERIODS, deltas.pct(THROTTLED_COUNT, PERIOD_COUNT));
        scope.of_process(role, &THROTTLED, deltas.rate(THROTTLED_NS).map(|rate| rate / 1e3));
        scope.of_process(role, &MEMORY, reading.memory.map(|bytes| bytes as f64));
        scope.of_process(role, &LIMIT_HITS, deltas.rate(HITS));
        scope.of_process(role, &OOM_KILLS, deltas.rate(KILLS));
        scope.of_process(role, &READ, deltas.rate(READ_BYTES));
        scope.of_process(role, &WRITE, deltas.rate(WRITE_BYTES));
        Ok(())
    }
}

/// A mounted hierarchy: its controllers (`unified` is version 2), where it is mounted, and which group its mount shows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    unified: bool,
    controllers: Vec<String>,
    folder: PathBuf,
    root: String,
}

/// The groups of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Groups {
    /// Folder of its group in the version-2 hierarchy; absent in the root group.
    unified: Option<PathBuf>,
    /// Controller and folder in version-1 hierarchies; those in a root group are left out.
    legacy: Vec<(String, PathBuf)>,
}

impl Groups {
    /// The version-1 folder with that controller.
    fn legacy(&self, controller: &str) -> Option<&Path> {
        let found = self.legacy.iter().find(|(name, _)| name == controller);
        found.map(|(_, folder)| folder.as_path())
    }

    /// The groups that /proc/PID/cgroup names, where they are mounted. Root groups are left out: their files are
    /// missing, or say what the whole host does.
    fn of(machine: &Machine, membership: &str) -> Self {
        let mounts = fs::read_to_string(machine.proc_root.join("self/mountinfo")).unwrap_or_default();
        Self::find(&parse_mounts(&mounts, &machine.sys_root), membership)
    }

    fn find(mounts: &[Mount], membership: &str) -> Self {
        let mut groups = Self::default();
        for line in membership.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            if path == "/" {
                continue;
            }
            let unified = controllers.is_empty();
            for mount in mounts.iter().filter(|mount| mount.unified == unified) {
                let names = controllers
                    .split(',')
                    .filter(|name| mount.controllers.iter().any(|known| known == name));
                let Some(folder) = mount.folder_of(path) else {
                    continue;
                };
                if unified {
                    groups.unified = Some(folder);
                } else {
                    groups
                        .legacy
                        .extend(names.map(|name| (name.to_owned(), folder.clone())));
                }
            }
        }
        groups
    }
}

impl Mount {
    /// A group's folder; none when this mount shows another part of the tree, or the group is the mount's own root.
    fn folder_of(&self, path: &str) -> Option<PathBuf> {
        let below = path.strip_prefix(self.root.trim_end_matches('/'))?;
        let below = below.strip_prefix('/')?;
        Some(self.folder.join(below))
    }
}

/// The cgroup mounts among the lines of proc_pid_mountinfo(5); mounts under /sys are looked for under `sys_root`.
fn parse_mounts(mounts: &str, sys_root: &Path) -> Vec<Mount> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let Some((mount, file_system)) = line.split_once(" - ") else {
            continue;
        };
        let mut fields = mount.split(' ').skip(3);
        let (Some(root), Some(folder)) = (fields.next(), fields.next()) else {
            continue;
        };
        let mut fields = file_system.split(' ');
        let kind = fields.next();
        if !matches!(kind, Some("cgroup" | "cgroup2")) {
            continue;
        }
        let options = fields.nth(1).unwrap_or_default();
        let folder = match Path::new(folder).strip_prefix("/sys") {
            Ok(below) => sys_root.join(below),
            Err(_) => PathBuf::from(folder),
        };
        let controllers = options.split(',').map(str::to_owned).collect();
        found.push(Mount {
            unified: kind == Some("cgroup2"),
            controllers,
            folder,
            root: root.to_owned(),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parser: Parser, content: &[u8]) -> Reading {
        let mut reading = Reading::default();
        parser(content, &mut reading);
        reading
    }

    #[test]
    fn cpu_stat_of_both_versions_gives_nanoseconds() {
        let unified = read(
            cpu_stat,
            b"usage_usec 5\nuser_usec 1\nnr_periods 10\nnr_throttled 3\nthrottled_usec 7\n",
        );
        assert_eq!(unified.counters[..4], [Some(5000), Some(10), Some(3), Some(7000)]);
        let legacy = read(cpu_stat, b"nr_periods 10\nnr_throttled 3\nthrottled_time 7000\n");
        assert_eq!(legacy.counters[..4], [None, Some(10), Some(3), Some(7000)]);
    }

    #[test]
    fn io_is_summed_over_devices_in_both_versions() {
        let unified = read(
            io_stat,
            b"254:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n8:0 rbytes=1 wbytes=2 rios=0\n",
        );
        assert_eq!(unified.counters[READ_BYTES..], [Some(11), Some(22)]);
        let legacy = read(
            blkio_service_bytes,
            b"254:0 Read 10\n254:0 Write 20\n254:0 Sync 30\n8:0 Read 1\n8:0 Write 2\nTotal 33\n",
        );
        assert_eq!(legacy.counters[READ_BYTES..], [Some(11), Some(22)]);
    }

    #[test]
    fn memory_events_count_both_limits() {
        let reading = read(
            memory_events,
            b"low 0\nhigh 4\nmax 2\noom 1\noom_kill 1\noom_group_kill 0\n",
        );
        assert_eq!((reading.counters[HITS], reading.counters[KILLS]), (Some(6), Some(1)));
    }

    const MOUNTS: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
42 31 0:39 / /proc rw - proc proc rw
";

    #[test]
    fn both_versions_are_found_and_root_groups_are_left_out() {
        let mounts = parse_mounts(MOUNTS, Path::new("/fake"));
        let groups = Groups::find(&mounts, "3:cpu,cpuacct:/dyno/a\n2:blkio:/\n0::/dyno/b\n");
        assert_eq!(
            groups.legacy("cpu"),
            Some(Path::new("/fake/fs/cgroup/cpu,cpuacct/dyno/a"))
        );
        assert_eq!(groups.legacy("cpuacct"), groups.legacy("cpu"));
        assert_eq!(groups.legacy("blkio"), None);
        assert_eq!(
            groups.unified.as_deref(),
            Some(Path::new("/fake/fs/cgroup/unified/dyno/b"))
        );
    }

    #[test]
    fn a_mount_of_a_part_of_the_tree_shows_only_that_part() {
        let mounts = parse_mounts(
            "1 2 0:3 /docker/x /sys/fs/cgroup rw - cgroup2 c rw\n",
            Path::new("/sys"),
        );
        let folder = |path: &str| Groups::find(&mounts, &format!("0::{path}\n")).unified;
        assert_eq!(folder("/docker/x/mysql"), Some("/sys/fs/cgroup/mysql".into()));
        assert_eq!(folder("/docker/x"), None);
        assert_eq!(folder("/docker/xy"), None);
        assert_eq!(folder("/other"), None);
    }
}
