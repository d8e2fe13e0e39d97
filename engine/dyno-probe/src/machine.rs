//! What is watched: the host's roots, disks and interfaces, and processes.

use std::fs;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};
use nix::unistd::{sysconf, SysconfVar};

use crate::speed::SpeedMeter;

/// The host as the collectors see it.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Where /proc is; another folder in tests and containers.
    pub proc_root: PathBuf,
    /// Where /sys is.
    pub sys_root: PathBuf,
    /// Disks to read; or why one that was named cannot be.
    pub disks: Result<Vec<Disk>, String>,
    /// Interfaces to read; empty: all.
    pub interfaces: Vec<Interface>,
    /// The speed meter; or why there is none.
    pub speed_meter: Result<SpeedMeter, String>,
    /// Clock ticks a second, the unit of CPU times in /proc.
    pub ticks_per_s: f64,
    /// Bytes in a page, the unit of memory in some files of /proc.
    pub page_bytes: f64,
}

impl Machine {
    /// The host under these roots, without disks and interfaces chosen.
    pub fn new(proc_root: PathBuf, sys_root: PathBuf) -> Self {
        let configured = |variable, default| sysconf(variable).ok().flatten().map_or(default, |value| value as f64);
        Self {
            proc_root,
            sys_root,
            disks: Ok(Vec::new()),
            interfaces: Vec::new(),
            speed_meter: Err("not asked for (--speed-meter)".into()),
            ticks_per_s: configured(SysconfVar::CLK_TCK, 100.0),
            page_bytes: configured(SysconfVar::PAGE_SIZE, 4096.0),
        }
    }
}

/// A whole disk, or a device-mapper or md device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The kernel's name, such as `vda` or `dm-0`.
    pub name: String,
    /// Its folder under /sys.
    pub folder: PathBuf,
}

/// A network interface, in the probe's own network namespace or in that of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's name.
    pub name: String,
    /// A process whose namespace it is in; the probe's own when absent.
    pub pid: Option<u32>,
}

/// What a watched process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A mysqld or mariadbd.
    Server,
    /// A load program.
    Driver,
}

/// A watched process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// What it is.
    pub role: Role,
    /// The caller's name for it.
    pub id: String,
    /// Its number; [`ELSEWHERE`] for a server whose process is not on this host.
    pub pid: u32,
}

/// The number of no process: the server runs elsewhere, and only its status can be read.
pub const ELSEWHERE: u32 = 0;

impl Process {
    /// Name of its scope in a sample.
    pub fn scope(&self) -> String {
        match self.role {
            Role::Server => format!("instance:{}", self.id),
            Role::Driver => format!("driver:{}", self.id),
        }
    }

    /// What its metrics' names begin with.
    pub fn prefix(&self) -> &'static str {
        match self.role {
            Role::Server => "server_",
            Role::Driver => "driver_",
        }
    }

    /// Its folder under /proc.
    pub fn folder(&self, machine: &Machine) -> PathBuf {
        machine.proc_root.join(self.pid.to_string())
    }
}

impl Disk {
    /// Finds the disk that an argument names: a device (`vda`, `/dev/vda1`), or a path on it. A partition gives its
    /// whole disk, for that is what is busy; a device-mapper device is taken as it is.
    ///
    /// # Errors
    /// What is wrong with the argument, and what to try.
    pub fn find(argument: &str, machine: &Machine) -> Result<Self, String> {
        let link = if argument.starts_with('/') {
            let (major, minor) = device_of(Path::new(argument), machine)?;
            machine.sys_root.join(format!("dev/block/{major}:{minor}"))
        } else {
            machine.sys_root.join("class/block").join(argument)
        };
        let mut folder = fs::canonicalize(&link)
            .map_err(|error| format!("--disk {argument}: {}: {error}; see {}", link.display(), hint(machine)))?;
        if folder.join("partition").exists() {
            folder.pop();
        }
        match folder.file_name() {
            Some(name) => Ok(Self {
                name: name.to_string_lossy().into_owned(),
                folder,
            }),
            None => Err(format!("--disk {argument}: {} is no device", folder.display())),
        }
    }
}

fn hint(machine: &Machine) -> String {
    machine.sys_root.join("class/block").display().to_string()
}

/// The block device under a path; for file systems with numbers of their own (btrfs, overlay) the mount's source.
fn device_of(path: &Path, machine: &Machine) -> Result<(u64, u64), String> {
    let say = |what: String| format!("--disk {}: {what}", path.display());
    let metadata = fs::metadata(path).map_err(|error| say(error.to_string()))?;
    let device = if metadata.file_type().is_block_device() {
        metadata.st_rdev()
    } else {
        metadata.st_dev()
    };
    if major(device) != 0 {
        return Ok((major(device), minor(device)));
    }
    let number = format!("{}:{}", major(device), minor(device));
    let mounts = fs::read_to_string(machine.proc_root.join("self/mountinfo")).unwrap_or_default();
    mount_source(&mounts, &number)
        .and_then(|source| fs::metadata(source).ok())
        .filter(|metadata| metadata.file_type().is_block_device())
        .map(|metadata| (major(metadata.st_rdev()), minor(metadata.st_rdev())))
        .ok_or_else(|| {
            say(format!(
                "its file system is on device {number}, which is no block device (overlay, tmpfs, network …); \
                 name the disk itself, see {}",
                hint(machine)
            ))
        })
}

/// The source of the mount with that device number (proc_pid_mountinfo(5): number in field 3, source after ` - type`).
fn mount_source<'m>(mounts: &'m str, number: &str) -> Option<&'m str> {
    mounts.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        (mount.split(' ').nth(2)? == number).then(|| file_system.split(' ').nth(1))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_a_mount_is_found_by_its_device_number() {
        let mounts =
            "22 1 0:20 / /proc rw - proc proc rw\n29 1 0:33 /sub /data rw,relatime shared:1 - btrfs /dev/sda2 rw\n";
        assert_eq!(mount_source(mounts, "0:33"), Some("/dev/sda2"));
        assert_eq!(mount_source(mounts, "0:99"), None);
    }

    #[test]
    fn a_partition_gives_its_whole_disk() {
        let root = tempfile::tempdir().unwrap();
        let part = root.path().join("devices/vda/vda1");
        fs::create_dir_all(&part).unwrap();
        fs::write(part.join("partition"), "1\n").unwrap();
        fs::create_dir_all(root.path().join("class/block")).unwrap();
        std::os::unix::fs::symlink("../../devices/vda/vda1", root.path().join("class/block/vda1")).unwrap();
        let machine = Machine::new("/proc".into(), root.path().into());
        assert_eq!(Disk::find("vda1", &machine).unwrap().name, "vda");
    }

    #[test]
    fn an_unknown_disk_says_where_to_look() {
        let machine = Machine::new("/proc".into(), "/sys".into());
        let message = Disk::find("no-such-disk", &machine).unwrap_err();
        assert!(
            message.contains("no-such-disk") && message.contains("/sys/class/block"),
            "{message}"
        );
    }
}
