//! Which control groups a process is in, and where their files are (cgroups(7)).

use std::fs;
use std::path::{Path, PathBuf};

use crate::machine::Machine;

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
pub struct Groups {
    /// Folder of its group in the version-2 hierarchy; absent in the root group.
    pub unified: Option<PathBuf>,
    /// Controller and folder in version-1 hierarchies; those in a root group are left out.
    pub legacy: Vec<(String, PathBuf)>,
}

impl Groups {
    /// The version-1 folder with that controller.
    pub fn legacy(&self, controller: &str) -> Option<&Path> {
        let found = self.legacy.iter().find(|(name, _)| name == controller);
        found.map(|(_, folder)| folder.as_path())
    }

    /// The groups that /proc/PID/cgroup names, where they are mounted. Root groups are left out: their files are
    /// missing, or say what the whole host does.
    pub fn of(machine: &Machine, membership: &str) -> Self {
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
