"""Dumps as people have them, on a real server: what they drop, where they go, and what the optimizer then knows."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

from mydyno.errors import UserError
from mydyno.hosts.paths import HostPaths
from mydyno.servers.running.base import LOAD_USER
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.workloads.files import DumpContents, run_check
from tests.support.patience import HANG_S

ROWS = 3000
DUMP = """/*M!999999\\- enable the sandbox mode */
-- MariaDB dump 10.19
SET @@SESSION.SQL_LOG_BIN= 0;
SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '';
DROP DATABASE IF EXISTS shop;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;
USE `shop`;
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */; /*!40101 SET NAMES utf8mb4 */;
DROP TABLE IF EXISTS `item`;
CREATE TABLE `item` (
  `id` INT NOT NULL AUTO_INCREMENT, -- the key;
  `note` VARCHAR(100) NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB;
LOCK TABLES `item` WRITE;
INSERT INTO `shop`.`item` VALUES ROWS;
UNLOCK TABLES;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`nobody`@`there`*/ /*!50003 TRIGGER noted BEFORE INSERT ON item FOR EACH ROW
BEGIN SET NEW.note = CONCAT(NEW.note, '!'); END */;;
DELIMITER ;
CREATE DEFINER=`nobody`@`there` VIEW `few` AS select `item`.`id` AS `id` from `item` where `id` < 4;
CREATE DEFINER=`nobody`@`there` FUNCTION plus(a INT) RETURNS INT DETERMINISTIC RETURN a + 1;
-- Dump completed""".replace("ROWS", ",".join(f"({number},'a;''{number}\\\\')" for number in range(1, ROWS + 1)))


def prepare(paths: HostPaths, instance: MysqldServer, path: Path, schema: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [paths.program("dynoload"), "sql", "prepare", path, "--database", schema, "--socket", str(instance.socket),
         "--user", LOAD_USER],
        capture_output=True, text=True, timeout=HANG_S, check=False,
        env={**os.environ, "DYNO_PASSWORD": instance.credentials.load},
    )  # fmt: skip


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
async def test_a_dump_fills_one_schema_and_no_other(
    instance: MysqldServer, real_paths: HostPaths, tmp_path: Path, packed: bool
) -> None:
    await instance.start()
    path = tmp_path / ("shop.sql.gz" if packed else "shop.sql")
    path.write_bytes(gzip.compress(DUMP.encode()) if packed else DUMP.encode())
    async with instance.control() as control:
        # Nothing but the reading of the dump protects the schema of the same name.
        for host in ("localhost", "127.0.0.1"):
            await control.rows(f"GRANT ALL ON *.* TO '{LOAD_USER}'@'{host}'")
        await control.rows("SET GLOBAL log_bin_trust_function_creators = 1")
        if packed:  # a server whose own mode reads quotes and backslashes otherwise than the dump was written
            await control.rows("SET GLOBAL sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES'")
        await control.rows("CREATE DATABASE shop")
        await control.rows("CREATE TABLE shop.kept (id INT)")
        done = prepare(real_paths, instance, path, "shop_copy")
        assert done.returncode == 0, done.stdout + done.stderr
        for words in ("DROP DATABASE", "gtid_", "sql_log_bin"):
            assert words in done.stderr, done.stderr
        assert await control.rows("SHOW TABLES FROM shop") == [("kept",)]
        assert await control.rows("SELECT COUNT(*), MAX(note) FROM shop_copy.item") == [(ROWS, "a;'9\\")]
        assert await control.rows("SELECT COUNT(*) FROM shop_copy.few") == [(3,)]
        assert await control.rows("SELECT shop_copy.plus(1)") == [(2,)]
        await control.rows("INSERT INTO shop_copy.item (note) VALUES ('new')")
        assert await control.rows("SELECT note FROM shop_copy.item ORDER BY id DESC LIMIT 1") == [("new!",)]
        counted = "SELECT n_rows FROM mysql.innodb_table_stats WHERE database_name = 'shop_copy'"
        [(rows,)] = await control.rows(counted)
        assert rows == pytest.approx(ROWS, rel=0.1)


def test_a_plan_states_what_of_a_dump_is_left_out(real_paths: HostPaths, tmp_path: Path) -> None:
    path = tmp_path / "shop.sql"
    path.write_text(DUMP)
    program = real_paths.program("dynoload")
    found = DumpContents.of(json.loads(run_check(program, ["sql", "check", str(path)])))
    # SET NAMES and another SET, six for the table, ALTER DATABASE, a trigger, a view, a function
    assert found.statements == 12 - 1
    size, *omitted = found.lines()
    assert size.startswith("dump of 11 statements, ")
    assert any("DROP DATABASE" in line and "line 5" in line for line in omitted), omitted
    path.write_text("USE a;\nUSE b;\n")
    with pytest.raises(UserError, match=r"line 2: .* one schema"):
        run_check(program, ["sql", "check", str(path)])


async def test_a_dump_that_reaches_further_changes_nothing(
    instance: MysqldServer, real_paths: HostPaths, tmp_path: Path
) -> None:
    await instance.start()
    path = tmp_path / "two.sql"
    path.write_text("CREATE TABLE a (id INT);\nDROP TABLE IF EXISTS a;\n\nUSE sbtest;\nDROP DATABASE other;\n")
    async with instance.control() as control:
        before = await control.rows("SHOW DATABASES")
        done = prepare(real_paths, instance, path, "shop_copy")
        assert done.returncode == 2, done.stdout + done.stderr
        assert "'" + str(path) + "', line 5" in done.stderr, done.stderr
        assert await control.rows("SHOW DATABASES") == before
