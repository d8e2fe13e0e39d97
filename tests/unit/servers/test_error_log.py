"""What a message quotes of a server's error log."""

from __future__ import annotations

from mydyno.servers.running.private import LOG_TAIL_LINES, of_a_failure

START = [
    "2026-11-29  6:00:01 0 [Note] InnoDB: Using io_uring",
    "2026-11-29  6:00:01 0 [Note] /usr/sbin/mariadbd: ready for connections.",
    "Version: '10.11.19-MariaDB'  socket: '/tmp/1.sock'  port: 0  Debian 12",
]
CRASH = ["261129  6:00:09 [ERROR] mysqld got signal 11 ;", "Sorry, we probably made a mistake, and this is a bug."]


def test_a_server_that_was_killed_while_it_served_has_nothing_to_say_of_it() -> None:
    assert of_a_failure(START) == []
    warning = "2026-11-29  6:00:05 3 [Warning] Aborted connection 3"
    assert of_a_failure([*START, warning]) == [warning]


def test_errors_come_before_all_else_and_a_start_that_hangs_shows_its_last_lines() -> None:
    assert of_a_failure([*START, *CRASH]) == CRASH[:1]
    assert of_a_failure(START[:1]) == START[:1]
    assert len(of_a_failure(START[:1] * 40)) == LOG_TAIL_LINES
