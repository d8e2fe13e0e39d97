"""Which server it is, from what many vendors' builds say of themselves."""

from __future__ import annotations

import pytest

from mydyno.errors import UserError
from mydyno.model.server_version import ServerVersion


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("10.11.19-MariaDB-0+deb12u1", "MariaDB 10.11.19"),
        ("5.5.5-10.11.19-MariaDB-0+deb12u1", "MariaDB 10.11.19"),
        ("11.4.2-MariaDB-ubu2404-log", "MariaDB 11.4.2"),
        ("12.0.2-MariaDB", "MariaDB 12.0.2"),
        ("10.6.16-11-MariaDB-enterprise-log", "MariaDB 10.6.16"),
        ("5.5.68-MariaDB", "MariaDB 5.5.68"),
        ("8.0.36-0ubuntu0.22.04.1", "MySQL 8.0.36"),
        ("8.4.3", "MySQL 8.4.3"),
        ("9.1.0-commercial", "MySQL 9.1.0"),
        ("5.7.44-48-log", "MySQL 5.7.44"),
        ("8.0.35-27", "MySQL 8.0.35"),
        ("5.6.51", "MySQL 5.6.51"),
        ("26.10", "MySQL 26.10"),
        ("26.10.0", "MySQL 26.10.0"),
        ("26.10.0-ga-commercial", "MySQL 26.10.0"),
        ("8.0.33.1", "MySQL 8.0.33"),
        ("8.0.36-28.1", "MySQL 8.0.36"),
        ("8.0.32-25-debug-greatsql", "MySQL 8.0.32"),
        ("8.0.30-txsql", "MySQL 8.0.30"),
        ("5.7.25-OceanBase_CE-v4.3.5.1", "MySQL 5.7.25"),
        ("10.11.6.4-MariaDB-enterprise", "MariaDB 10.11.6"),
        ("10.4.20-MariaDB-1:10.4.20+maria~focal-log", "MariaDB 10.4.20"),
        ("8.0.mysql_aurora.3.04.0", "MySQL 8.0"),
        ("8.0.11-TiDB-v7.5.0", "MySQL 8.0.11"),
        (
            "/usr/sbin/mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)",
            "MariaDB 10.11.19",
        ),
        ("/opt/mysql/bin/mysqld  Ver 8.0.36 for Linux on x86_64 (MySQL Community Server - GPL)", "MySQL 8.0.36"),
        (
            "/usr/sbin/mysqld  Ver 5.7.44-48 for Linux on x86_64 (Percona Server (GPL), Release 48, Revision 497f936)",
            "MySQL 5.7.44",
        ),
        ("/opt/mysql-26.10/bin/mysqld  Ver 26.10.0 for Linux on x86_64 (Source distribution)", "MySQL 26.10.0"),
        ("mysqld  Ver 26.10 for Linux on x86_64 (MySQL Community Server - GPL)", "MySQL 26.10"),
        ("bin/mysqld  Ver 5.5.62 for linux-glibc2.12 on x86_64 (MySQL Community Server (GPL))", "MySQL 5.5.62"),
        ("/home/me/mariadb-or-mysql/1.2/mysqld  Ver 8.4.0 for Linux on x86_64", "MySQL 8.4.0"),
        ("/opt/mysql-8.0/bin/mariadbd  Ver 11.8.3-MariaDB for Linux on x86_64 (MariaDB Server)", "MariaDB 11.8.3"),
    ],
)
def test_flavour_and_number_are_told(text: str, name: str) -> None:
    assert ServerVersion.parse(text).name == name


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "no version number"), ("psql (PostgreSQL) seventeen", "no version number"), ("5.1.73", "older than 5.5")],
)
def test_what_is_no_server_that_mydyno_knows_is_refused(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        ServerVersion.parse(text)


@pytest.mark.parametrize(
    ("text", "initialises_itself", "statement", "mysqlx"),
    [
        ("10.11.19-MariaDB", False, "SET PASSWORD FOR 'u'@'h' = PASSWORD('p')", False),
        ("5.6.51", False, "SET PASSWORD FOR 'u'@'h' = PASSWORD('p')", False),
        ("5.7.5", False, "SET PASSWORD FOR 'u'@'h' = PASSWORD('p')", False),
        ("5.7.44", True, "ALTER USER 'u'@'h' IDENTIFIED BY 'p'", False),
        ("8.4.3", True, "ALTER USER 'u'@'h' IDENTIFIED BY 'p'", True),
    ],
)
def test_what_differs_between_versions(text: str, initialises_itself: bool, statement: str, mysqlx: bool) -> None:
    version = ServerVersion.parse(text)
    assert version.initialises_itself is initialises_itself
    assert version.set_password_sql("'u'@'h'", "p") == statement
    assert ("mysqlx" in version.quiet_variables) is mysqlx


def test_calendar_versions_are_later_than_numbered_ones() -> None:
    version = ServerVersion.parse("26.10.0")
    assert version.is_mysql_from(9, 7) and not version.is_mysql_from(27, 1)
    assert version.initialises_itself and not version.is_mariadb_from(10, 5)


def test_a_line_without_a_patch_level_claims_none() -> None:
    names = [ServerVersion.parse(text).name for text in ("9.7", "10.11-MariaDB", "memcached 1.6", "10.11.19-MariaDB")]
    assert names == ["MySQL 9.7", "MariaDB 10.11", "memcached 1.6", "MariaDB 10.11.19"]
