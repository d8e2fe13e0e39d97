use super::*;

const ANSI_BEGINS: &str = "/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO,ANSI' */";

/// What becomes of the statements of a dump for the schema `copy`; left out ones are empty.
fn admitted(texts: &[&str]) -> Result<Vec<String>, String> {
    let mut admission = Admission::into("copy");
    let one = |text: &&str| match admission.admit(text.as_bytes())? {
        Admitted::Send(text) => Ok(String::from_utf8(text).unwrap()),
        Admitted::Omit(_) => Ok(String::new()),
    };
    texts.iter().map(one).collect()
}

#[test]
fn a_dump_of_one_schema_is_loaded_into_another_and_drops_none() {
    let found = admitted(&[
        "SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a:1-5'",
        "SET @@SESSION.SQL_LOG_BIN= 0",
        "CHANGE MASTER TO MASTER_LOG_FILE='b', MASTER_LOG_POS=4",
        "DROP DATABASE IF EXISTS shop",
        "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET latin1 */",
        "USE `shop`",
        "/*!40101 SET NAMES utf8mb4 */",
        "CREATE TABLE t (a INT) ENGINE=InnoDB",
        "INSERT INTO `shop`.`t` VALUES (1,'shop.t')",
        "/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`%`*/ /*!50003 TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN SET \
         NEW.a = 1; END */",
        "ALTER DATABASE `shop` CHARACTER SET utf8mb4",
        "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM t",
        "FLUSH PRIVILEGES",
        "DO SETVAL(`sq`, 5, 0)",
    ]);
    let expected = [
        "",
        "",
        "",
        "",
        "ALTER DATABASE `copy` /*!40100 DEFAULT CHARACTER SET latin1 */",
        "",
        "/*!40101 SET NAMES utf8mb4 */",
        "CREATE TABLE t (a INT) ENGINE=InnoDB",
        "INSERT INTO `copy`.`t` VALUES (1,'shop.t')",
        "/*!50003 CREATE*/ /*!50017 */ /*!50003 TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.a = 1; END */",
        "ALTER DATABASE `copy` CHARACTER SET utf8mb4",
        "",
        "",
        "DO SETVAL(`sq`, 5, 0)",
    ];
    assert_eq!(found.unwrap(), expected);
}

#[test]
fn what_reaches_beyond_one_schema_is_refused() {
    for (texts, words) in [
        (vec!["USE a", "USE b"], "for the schema b, and statements before for a"),
        (vec!["USE a", "INSERT INTO b.t VALUES (1)"], "for the schema b"),
        (vec!["USE a", "DROP DATABASE b"], "for the schema b"),
        (vec!["INSERT INTO mysql.user VALUES (1)"], "the server's schema mysql"),
        (vec!["DROP DATABASE mysql"], "the server's schema mysql"),
        // As mysqldump --all-databases begins.
        (
            vec![
                "/*!50606 SET @OLD_INNODB_STATS_AUTO_RECALC=@@INNODB_STATS_AUTO_RECALC */",
                "/*!50606 SET GLOBAL INNODB_STATS_AUTO_RECALC=OFF */",
                "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `mysql`",
            ],
            "the server's schema mysql: dump the schema of the application alone",
        ),
        (vec!["SET GLOBAL max_connections = 5"], "the whole server"),
        (vec!["SET autocommit = 0, GLOBAL x = 5"], "the whole server"),
        (vec!["GRANT ALL ON *.* TO a@b"], "accounts"),
        (vec!["CREATE OR REPLACE USER a"], "accounts"),
        (
            vec!["LOAD DATA INFILE '/etc/passwd' INTO TABLE t"],
            "files on the server's host",
        ),
        (vec!["CALL p()"], "no statement of a dump"),
        (vec!["EXECUTE s"], "no statement of a dump"),
        (vec!["source load_departments.dump"], "a command of the mysql client"),
        (
            vec!["CREATE TABLE t (a INT) ENGINE=FEDERATED CONNECTION='mysql://h/d/t'"],
            "FEDERATED",
        ),
        (vec!["CREATE TABLE t (a INT) DATA DIRECTORY='/tmp'"], "DATA DIRECTORY"),
        (vec!["SET NAMES gbk"], "--default-character-set=utf8mb4"),
        (vec!["SET SQL_MODE='NO_BACKSLASH_ESCAPES'"], "NO_BACKSLASH_ESCAPES"),
        // As mysqldump --compatible=ansi writes names.
        (
            vec!["USE \"a\"", "INSERT INTO \"b\".\"t\" VALUES (1)"],
            "for the schema b",
        ),
        (
            vec!["INSERT INTO \"mysql\".\"user\" VALUES (1)"],
            "the server's schema mysql",
        ),
        (vec!["DROP DATABASE \"mysql\""], "the server's schema mysql"),
        (
            vec![ANSI_BEGINS, "UPDATE t AS \"a\\\", mysql.user SET x = 1 WHERE \"y\" = 1"],
            "a backslash is there",
        ),
        (
            vec![
                "SET sql_mode = CONCAT(@@sql_mode, ',ansi_quotes')",
                "INSERT INTO t VALUES (\"\\\\\")",
            ],
            "a backslash is there",
        ),
        (vec!["SET sql_mode = CONCAT(@@sql_mode, ',ORACLE')"], "sql_mode ORACLE"),
        (vec!["USE a", "ALTER TABLE t RENAME = b.t"], "for the schema b"),
        (
            vec!["USE a", "CREATE TABLE t (c INT) ENGINE=MERGE UNION=(b.t)"],
            "for the schema b",
        ),
        (vec!["USE a", "DO SETVAL(b.s, 5)"], "for the schema b"),
        (vec!["SET @@global . x = 5"], "the whole server"),
        (
            vec!["SET STATEMENT max_statement_time = 9 FOR DROP DATABASE b"],
            "no statement of a dump",
        ),
        (vec!["BEGIN NOT ATOMIC DROP DATABASE b; END"], "several statements"),
        (vec!["BEGIN NOT ATOMIC DROP DATABASE b"], "no statement of a dump"),
        (vec!["START TRANSACTION; DROP DATABASE b"], "several statements"),
        (vec!["USE a; INSERT INTO t VALUES (1)"], "several statements"),
    ] {
        let error = admitted(&texts).unwrap_err();
        assert!(error.contains(words), "{texts:?}: {error}");
    }
}

#[test]
fn a_dump_with_names_in_double_quotes_goes_into_the_target() {
    let texts = [
        ANSI_BEGINS,
        "DROP DATABASE IF EXISTS \"shop\"",
        "CREATE DATABASE /*!32312 IF NOT EXISTS*/ \"shop\"",
        "USE \"shop\"",
        "CREATE TABLE \"t\" (\"a\" INT)",
        "INSERT INTO \"shop\".\"t\" VALUES ('\\'\"\\\\')",
    ];
    let expected = [
        texts[0],
        "",
        "",
        "",
        texts[4],
        "INSERT INTO `copy`.\"t\" VALUES ('\\'\"\\\\')",
    ];
    assert_eq!(admitted(&texts).unwrap(), expected);
    let text = "INSERT INTO t VALUES (\"a\\\"b\")";
    assert_eq!(admitted(&[text]).unwrap(), [text], "a string of the default mode");
}

#[test]
fn the_servers_schemas_may_be_read() {
    let text = "SELECT COUNT(*) INTO @rocksdb FROM INFORMATION_SCHEMA.SESSION_VARIABLES WHERE VARIABLE_NAME = 'x'";
    assert_eq!(admitted(&[text, "USE shop"]).unwrap(), [text, ""]);
}
