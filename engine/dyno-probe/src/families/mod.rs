//! The metric families, one a file. A new one is a new file and its line in [`ALL`].

mod cgroup;
mod disk;
mod host_cpu;
mod host_memory;
mod host_paging;
mod host_speed;
mod innodb_buffer_pool;
mod innodb_io;
mod innodb_locks;
mod innodb_redo;
mod mysql_handlers;
mod mysql_sessions;
mod mysql_statements;
mod network;
pub mod probe;
mod process_cpu;
mod process_io;
mod process_memory;
mod process_pss;
mod process_switches;
mod psi;
mod tcp;

use crate::collector::Family;

/// All families, in the order in which they are read: what changes fastest and what tells whether a process is still
/// there first.
pub static ALL: &[Family] = &[
    host_cpu::FAMILY,
    host_speed::FAMILY,
    process_cpu::FAMILY,
    process_io::FAMILY,
    cgroup::FAMILY,
    disk::FAMILY,
    network::FAMILY,
    tcp::FAMILY,
    psi::FAMILY,
    host_paging::FAMILY,
    host_memory::FAMILY,
    process_memory::FAMILY,
    process_pss::FAMILY,
    process_switches::FAMILY,
    mysql_statements::FAMILY,
    mysql_sessions::FAMILY,
    mysql_handlers::FAMILY,
    innodb_redo::FAMILY,
    innodb_buffer_pool::FAMILY,
    innodb_io::FAMILY,
    innodb_locks::FAMILY,
    probe::FAMILY,
];
