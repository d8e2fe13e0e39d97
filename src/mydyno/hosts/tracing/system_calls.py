"""Names of system calls, which tracepoints report by number: those of servers, on x86-64.

From the kernel's arch/x86/entry/syscalls/syscall_64.tbl, where numbers never change. Other architectures have other
numbers, which stay numbers here.
"""

from __future__ import annotations

import platform

MACHINE = "x86_64"

_NAMES = {
    0: "read", 1: "write", 2: "open", 3: "close", 4: "stat", 5: "fstat", 6: "lstat", 7: "poll", 8: "lseek", 9: "mmap",
    10: "mprotect", 11: "munmap", 12: "brk", 13: "rt_sigaction", 14: "rt_sigprocmask", 16: "ioctl", 17: "pread64",
    18: "pwrite64", 19: "readv", 20: "writev", 21: "access", 23: "select", 24: "sched_yield", 25: "mremap",
    26: "msync", 28: "madvise", 35: "nanosleep", 39: "getpid", 40: "sendfile", 41: "socket", 42: "connect",
    43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg", 48: "shutdown", 54: "setsockopt",
    55: "getsockopt", 56: "clone", 60: "exit", 72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync", 76: "truncate",
    77: "ftruncate", 79: "getcwd", 82: "rename", 83: "mkdir", 84: "rmdir", 87: "unlink", 96: "gettimeofday",
    98: "getrusage", 100: "times", 110: "getppid", 186: "gettid", 202: "futex", 203: "sched_setaffinity",
    204: "sched_getaffinity", 206: "io_setup", 208: "io_getevents", 209: "io_submit", 210: "io_cancel",
    228: "clock_gettime", 230: "clock_nanosleep", 231: "exit_group", 232: "epoll_wait", 233: "epoll_ctl",
    257: "openat", 262: "newfstatat", 263: "unlinkat", 264: "renameat", 270: "pselect6", 271: "ppoll",
    273: "set_robust_list", 277: "sync_file_range", 285: "fallocate", 286: "timerfd_settime", 288: "accept4",
    290: "eventfd2", 291: "epoll_create1", 293: "pipe2", 295: "preadv", 296: "pwritev", 299: "recvmmsg",
    307: "sendmmsg", 309: "getcpu", 318: "getrandom", 324: "membarrier", 327: "preadv2", 328: "pwritev2",
    332: "statx", 333: "io_pgetevents", 334: "rseq", 425: "io_uring_setup", 426: "io_uring_enter",
    427: "io_uring_register", 435: "clone3", 441: "epoll_pwait2",
}  # fmt: skip


def system_call_name(number: int, machine: str | None = None) -> str:
    """The name of a system call, of this host or a machine, e.g. "futex"; "number 999" of one that is not listed."""
    names = _NAMES if (machine or platform.machine()) == MACHINE else {}
    return names.get(number, f"number {number}")
