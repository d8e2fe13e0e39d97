"""States and kernel stacks of threads: of a made-up /proc, and of real child processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mydyno.execution.counters.task_profiler import KERNEL_CODE, LIST_EVERY, USER_CODE, TaskStates
from mydyno.hosts.tracing.perf import Folded
from mydyno.store.samples import RUN_QUEUE, WAITING
from tests.support.patience import Patience

PASSES = 40


def thread(
    proc: Path, tid: int, name: str, state: str, times: tuple[int, int] = (5, 5), wchan: str = "0",
    stack: str | None = None,
) -> None:  # fmt: skip
    """Write a thread of process 7."""
    folder = proc / "7" / "task" / str(tid)
    folder.mkdir(parents=True, exist_ok=True)
    rest = f"{state} 1 7 7 0 -1 4194560 1 0 0 0 {times[0]} {times[1]} 0 0 20 0 1 0 1 1 1"
    (folder / "stat").write_text(f"{tid} ({name}) {rest}\n")
    (folder / "wchan").write_text(wchan)
    if stack is not None:
        (folder / "stack").write_text(stack)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def passes(states: TaskStates, count: int = 1) -> Folded:
    folded = Folded()
    for _ in range(count):
        states.count_into(folded)
    return folded


def test_running_and_waiting_threads_are_counted_and_sleeping_ones_are_not(tmp_path: Path) -> None:
    functions = ("jbd2_log_wait_commit+0x1/0x2 [jbd2]", "ext4_sync.constprop.0+0x3/0x4 [ext4]", "do_syscall_64+0x5/0x6")
    write = "".join(f"[<0>] {function}\n" for function in functions)
    preempted = "[<0>] irqentry_exit_to_user_mode+0x1/0x2\n[<0>] asm_sysvec_apic_timer_interrupt+0x1/0x2\n"
    thread(tmp_path, 7, "mariadbd", "S", wchan="do_poll", stack="[<0>] do_poll+0x1/0x2\n")
    thread(tmp_path, 8, "conn; (1) x", "R", stack="")
    thread(tmp_path, 9, "ib_log", "D", wchan="jbd2_log_wait_commit", stack=write)
    thread(tmp_path, 10, "ib_io", "D", wchan="io_schedule")
    thread(tmp_path, 11, "ib_page", "D")
    thread(tmp_path, 12, "pre", "R", stack=preempted)
    thread(tmp_path, 13, "sys", "R", stack="[<0>] copy_page+0x1/0x2\n[<0>] do_syscall_64+0x1/0x2\n")
    states = TaskStates((7,), tmp_path)
    folded = passes(states, 2)
    states.close()
    assert folded.stacks == {
        ("conn: (1) x", USER_CODE): 2,
        ("ib_log", WAITING, "kernel`do_syscall_64", "kernel`ext4_sync", "kernel`jbd2_log_wait_commit"): 2,
        ("ib_io", WAITING, "kernel`io_schedule"): 2,
        ("ib_page", WAITING, "kernel`[unknown]"): 2,
        ("pre", RUN_QUEUE, USER_CODE): 2,
        ("sys", RUN_QUEUE, "kernel`do_syscall_64", "kernel`copy_page"): 2,
    }
    assert (folded.samples, folded.unknown_frames, folded.cut_off) == (12, 2, 0)


def test_a_thread_on_a_cpu_is_in_the_kernel_if_its_time_there_grew_more(tmp_path: Path) -> None:
    thread(tmp_path, 7, "one", "R", (5, 5))
    states = TaskStates((7,), tmp_path)
    seen = [passes(states).stacks]
    for times in ((5, 7), (6, 8), (8, 8)):
        thread(tmp_path, 7, "one", "R", times)
        seen.append(passes(states).stacks)
    states.close()
    assert [stack for one in seen for stack in one] == [
        ("one", USER_CODE), ("one", KERNEL_CODE), ("one", USER_CODE), ("one", USER_CODE)
    ]  # fmt: skip


def test_threads_that_begin_are_found_and_a_process_that_is_gone_has_none(tmp_path: Path) -> None:
    thread(tmp_path, 7, "first", "R")
    states = TaskStates((7, 99), tmp_path)
    assert passes(states).samples == 1
    thread(tmp_path, 8, "second", "R")
    assert passes(states, LIST_EVERY - 1).samples == LIST_EVERY - 1
    assert passes(states).samples == 2
    states.close()
    assert passes(TaskStates((99,), tmp_path)).samples == 0


def test_files_are_closed(tmp_path: Path) -> None:
    for tid in range(7, 27):
        thread(tmp_path, tid, "thread", "R")
    before = open_files()
    states = TaskStates((7,), tmp_path)
    assert passes(states).samples == 20
    assert open_files() == before + 20
    states.close()
    states.close()
    assert open_files() == before


@contextmanager
def child(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process that has printed a line when it is yielded, and does what follows then."""
    command = [sys.executable, "-c", f"import os; os.write(1, b'x')\n{code}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        try:
            yield process
        finally:
            process.kill()


def test_a_process_that_burns_cpu_is_user_code_and_one_that_reads_a_pipe_is_not_counted() -> None:
    with child("while True: pass") as burning, child("os.read(0, 1)") as reading:
        states = TaskStates((burning.pid, reading.pid))
        patience = Patience(10)
        stat = Path(f"/proc/{reading.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "S":  # between its output and its read it runs
            assert not patience.expired
        folded = passes(states, PASSES)
        count = PASSES
        while not any(stack[-1] == USER_CODE for stack in folded.stacks) and not patience.expired:
            folded.add(passes(states))
            count += 1
        states.close()
        name = Path(f"/proc/{burning.pid}/comm").read_text().strip()
        assert Path(f"/proc/{reading.pid}/comm").read_text().strip() == name
    assert folded.samples == count
    assert {stack[0] for stack in folded.stacks} == {name}
    assert {stack[-1] for stack in folded.stacks} & {USER_CODE}, folded.stacks
    assert {stack[1] for stack in folded.stacks} <= {USER_CODE, KERNEL_CODE, RUN_QUEUE}


def test_the_end_of_a_process_is_no_error() -> None:
    with child("while True: pass") as burning:
        states = TaskStates((burning.pid,))
        assert passes(states).samples == 1
        burning.kill()
        burning.wait()
        assert passes(states, 2 * LIST_EVERY).samples == 0
        states.close()
