use super::*;
use crate::digest;

#[test]
fn the_same_literal_has_the_same_pseudonym_of_the_same_length_and_form() {
    let anonymiser = Anonymiser::new([7; KEY_BYTES]);
    let text = "SELECT 'Müller', \"Müller\", '2026-11-23', 4711, 0xFF, 1.5e3, x'4D' FROM t -- secret";
    let replaced = String::from_utf8(anonymiser.statement(text.as_bytes())).unwrap();
    assert_eq!(digest(text.as_bytes()), digest(replaced.as_bytes()));
    assert!(
        !replaced.contains("secret") && !replaced.contains("ller") && !replaced.contains("4711"),
        "{replaced}"
    );
    let parts: Vec<&str> = replaced["SELECT ".len()..replaced.find(" FROM").unwrap()]
        .split(", ")
        .collect();
    assert_eq!(parts[0].trim_matches('\''), parts[1].trim_matches('"'));
    assert_eq!(parts[0].len(), "'Müller'".len());
    assert!(
        parts[2].matches('-').count() == 2 && parts[2] != "'2026-11-23'",
        "{}",
        parts[2]
    );
    assert!(parts[5].ends_with("e3") && parts[6].starts_with("x'"), "{replaced}");
    let other = Anonymiser::new([8; KEY_BYTES]).statement(text.as_bytes());
    assert_ne!(replaced.into_bytes(), other);
}

#[test]
fn escapes_stay_whole() {
    let anonymiser = Anonymiser::new([1; KEY_BYTES]);
    let text = br"SELECT 'it\'s', 'a\\', 'b''c'";
    assert_eq!(tokens(&anonymiser.statement(text)).count(), tokens(text).count());
}

fn anonymised(text: &str) -> String {
    String::from_utf8(Anonymiser::new([7; KEY_BYTES]).statement(text.as_bytes())).unwrap()
}

/// The literal's pseudonym, without its quotes.
fn of(literal: &str) -> String {
    let made = anonymised(&format!("SELECT '{literal}'"));
    made["SELECT '".len()..made.len() - 1].to_string()
}

#[test]
fn values_keep_their_types() {
    for literal in [
        "2026-11-23",
        "2026-11-23 10:30:59.120",
        "2024-02-29T23:59:59Z",
        "20261123",
        "20261123103059",
    ] {
        let made = of(literal);
        assert_ne!(made, literal);
        assert_eq!(made.len(), literal.len());
        let digits: String = made.chars().filter(char::is_ascii_digit).collect();
        let field = |from: usize| {
            digits
                .get(from..from + 2)
                .map_or(0, |field| field.parse::<u32>().unwrap())
        };
        assert!((1971..=2037).contains(&digits[..4].parse().unwrap()), "{made}");
        assert!((1..=12).contains(&field(4)) && (1..=31).contains(&field(6)), "{made}");
        assert!(field(8) < 24 && field(10) < 60 && field(12) < 60, "{made}");
    }
    assert_eq!(of("2026-11-23 00:00:00"), of("2026-11-23") + " 00:00:00");
    for kept in [
        "0000-00-00",
        "0000-00-00 00:00:00",
        "9999-12-31",
        "",
        "Y",
        "true",
        "0",
        "1",
        "00:00:00",
    ] {
        assert_eq!(of(kept), kept);
    }
    for (literal, most) in [
        ("120", 127),
        ("-120", 127),
        ("200", 255),
        ("30000", 32_767),
        ("2100000000", 2_147_483_647),
    ] {
        let made: i64 = of(literal).parse().unwrap();
        assert!(
            made.abs() <= most && made.to_string().len() == literal.len(),
            "{literal}: {made}"
        );
        assert_eq!(anonymised(literal), of(literal), "text and number are equal");
    }
    assert!(of("12.50").ends_with('0') && of("12.50").find('.') == Some(2));
    assert!(of("-100:30:15").starts_with("-100:"));
    let address = of("10.20.30.40");
    assert!(address.split('.').all(|part| part.parse::<u8>().is_ok()), "{address}");
    for literal in [
        "6ccd780c-baba-1026-9564-5b8c656024db",
        "fe80::1:2",
        "D41D8CD98F00B204E9800998ECF8427E",
    ] {
        let made = of(literal);
        let is_hex = |character: char| character.is_ascii_hexdigit() || ":-".contains(character);
        assert!(made.chars().all(is_hex) && made.len() == literal.len(), "{made}");
    }
    let made = of(r#"{"name": "Anna", "born": "1990-05-06", "tags": ["a\\nna", 4711, true, null]}"#);
    let parsed: serde_json::Value = serde_json::from_str(&made.replace(r"\\", r"\")).unwrap();
    assert!(
        parsed["name"] != "Anna" && parsed["born"].as_str().unwrap().matches('-').count() == 2,
        "{made}"
    );
    assert_eq!(of("$.name[0].*"), "$.name[0].*");
    let point = of("POLYGON((1 2, 3.5 4, 89 170, 1 2))");
    assert!(
        point.starts_with("POLYGON((1 ") && point != "POLYGON((1 2, 3.5 4, 89 170, 1 2))",
        "{point}"
    );
    let text = of("Müller 王小明");
    assert_eq!(
        (text.chars().count(), text.len()),
        (10, "Müller 王小明".len()),
        "{text}"
    );
    assert_eq!(anonymised("SELECT x'416e6e61'").len(), "SELECT x'416e6e61'".len());
}

/// Values at the ends of types stay within them; dates stay dates, periods periods, times times.
#[test]
fn values_stay_within_their_types() {
    let number = |literal: &str| anonymised(&format!("SELECT {literal}"))["SELECT ".len()..].to_string();
    for (least, most) in [
        (-128i128, 127i128),
        (-32_768, 32_767),
        (-8_388_608, 8_388_607),
        (-2_147_483_648, 2_147_483_647),
        (-9_223_372_036_854_775_808, 9_223_372_036_854_775_807),
        (0, 255),
        (0, 18_446_744_073_709_551_615),
        (1901, 2155),
    ] {
        for value in [least, least + 1, most - 1, most] {
            let made: i128 = number(&value.to_string()).parse().unwrap();
            assert!((least..=most).contains(&made), "{value}: {made}");
            assert_eq!(made.to_string(), of(&value.to_string()));
        }
    }
    for (literal, most) in [
        ("0x7F", 0x7f),
        ("0x007fff", 0x7fff),
        ("0xFE", 0xff),
        ("0b01111110", 0x7f),
    ] {
        let made = number(literal);
        let radix = if literal.starts_with("0x") { 16 } else { 2 };
        assert_eq!(made.len(), literal.len());
        assert!(i64::from_str_radix(&made[2..], radix).unwrap() <= most, "{made}");
    }
    for kept in ["1.7976931348623157E308", "3.4e38", "b'1'", "b'0'", "0b1"] {
        assert_eq!(number(kept), kept);
    }
    for degrees in ["89.9", "179.99"] {
        let made: f64 = number(degrees).parse().unwrap();
        assert!(made < if degrees.len() == 4 { 90.0 } else { 180.0 }, "{made}");
    }
    for text in [
        "26-02-28",
        "99-12-31",
        "260228",
        "26-02-28 10:30:00",
        "260228103000",
        "26/02/28",
        "26.2.28",
    ] {
        let made = of(text);
        let digits: Vec<u32> = if text.contains(|mark: char| !mark.is_ascii_digit()) {
            made.split(|mark: char| !mark.is_ascii_digit())
                .map(|field| field.parse().unwrap())
                .collect()
        } else {
            made.as_bytes()
                .chunks(2)
                .map(|field| std::str::from_utf8(field).unwrap().parse().unwrap())
                .collect()
        };
        assert!(made != text && made.len() == text.len(), "{text}: {made}");
        assert!(
            (1..=12).contains(&digits[1]) && (1..=31).contains(&digits[2]),
            "{text}: {made}"
        );
        assert!(digits.get(3).is_none_or(|hour| *hour < 24), "{text}: {made}");
    }
    for period in ["202602", "202602", "2026-02", "200112"] {
        let made = of(period);
        assert!(
            made != period && (1971..=2037).contains(&made[..4].parse().unwrap()),
            "{made}"
        );
        assert!((1..=12).contains(&made[made.len() - 2..].parse().unwrap()), "{made}");
    }
    let period = anonymised("SELECT PERIOD_ADD(2602, 1)");
    assert!(
        (1..=12).contains(&period["SELECT PERIOD_ADD(26".len()..][..2].parse().unwrap()),
        "{period}"
    );
    for kept in ["838:59:59", "-838:59:59", "838:59:59.000000", "24:00:00", "00-00-00"] {
        assert_eq!(of(kept), kept);
    }
    for (time, before) in [
        ("837:12:59.5", "837:"),
        ("-30:15:00", "-30:"),
        ("3 10:30:00", "3 "),
        ("-12:30:00", "-"),
    ] {
        let made = of(time);
        let fields: Vec<&str> = made[before.len()..].split(':').collect();
        assert!(
            made != time && made.starts_with(before) && made.len() == time.len(),
            "{made}"
        );
        assert!(
            fields.iter().all(|field| field.parse::<f64>().unwrap() < 60.0),
            "{made}"
        );
    }
}

#[test]
fn what_is_no_data_stays() {
    for text in [
        "SET sql_mode = 'STRICT_ALL_TABLES', NAMES utf8mb4, time_zone = '+02:00', SESSION wait_timeout = 4711",
        "SELECT DATE_FORMAT(a, '%Y-%m-%d'), CONVERT_TZ(a, '+00:00', 'Europe/Berlin') FROM t",
        "SELECT a, b FROM t GROUP BY 1, 2 ORDER BY 2 DESC, 1 LIMIT 20, 10",
        "SELECT a + INTERVAL 30 DAY, a - INTERVAL '1:30' MINUTE_SECOND, NOW(6), CAST(a AS DECIMAL(10, 2)) FROM t",
        "SELECT SUM(a) OVER (ORDER BY b ROWS BETWEEN 30 PRECEDING AND 20 FOLLOWING) FROM t",
        "CREATE TABLE t (a VARCHAR(20) DEFAULT 'none', b ENUM('new','sold')) PARTITION BY RANGE (a) (PARTITION p VALUES \
         LESS THAN ('2026-01-01'))",
        "SELECT JSON_EXTRACT(a, '$.name'), a->>'$.b[*]' FROM t",
    ] {
        assert_eq!(anonymised(text), text);
    }
    let inner = anonymised("PREPARE q FROM 'SELECT * FROM t WHERE a = ''Anna'' LIMIT 10'");
    assert!(inner.starts_with("PREPARE q FROM 'SELECT * FROM t WHERE a = ''") && inner.ends_with("'' LIMIT 10'"));
    let date = anonymised("SELECT STR_TO_DATE('23.11.2026', '%d.%m.%Y')");
    assert!(date.ends_with(", '%d.%m.%Y')") && !date.contains("23.11"), "{date}");
    assert!(anonymised("SELECT 'a' REGEXP '^[a-z]{2,3}anna'").contains("'^[a-z]{2,3}"));
}

#[test]
fn members_of_enumerations_stay_and_persons_and_accounts_do_not() {
    let mut anonymiser = Anonymiser::new([3; KEY_BYTES]);
    anonymiser.keep_members(b"CREATE TABLE t (a ENUM('new','it''s sold') NOT NULL, b SET('red','blue'))");
    let text = br#"INSERT INTO t VALUES ("it's sold", 'Blue,red', 'anna')"#;
    let made = String::from_utf8(anonymiser.statement(text)).unwrap();
    assert!(
        made.starts_with(r#"INSERT INTO t VALUES ("it's sold", 'Blue,red', '"#),
        "{made}"
    );
    for text in [
        "SELECT 'anna'",
        "SET @name = 'anna'",
        "CREATE USER anna@localhost IDENTIFIED BY 'anna'",
        "GRANT ALL ON *.* TO `anna`@`%`",
        "SET PASSWORD FOR 'anna' = 'x'",
        "CREATE DEFINER=`anna`@`%` VIEW v AS SELECT 1",
        "CREATE TABLE t (a INT COMMENT 'anna') COMMENT='anna'",
        "CREATE TABLE t AS SELECT 'anna' AS a",
        "SELECT 1 -- anna",
        "SELECT x'616e6e61', 0x616E6E61",
    ] {
        let made = anonymised(text).to_lowercase();
        assert!(!made.contains("anna") && !made.contains("616e6e61"), "{made}");
    }
}

#[test]
fn different_literals_stay_different() {
    let made = |texts: Vec<String>| -> std::collections::BTreeSet<String> {
        texts.iter().map(|text| of(text).to_lowercase()).collect()
    };
    assert_eq!(made((0..1000).map(|number| number.to_string()).collect()).len(), 1000);
    // Numbers, dates and periods of six digits.
    let some: Vec<String> = (199_900..201_400).map(|number| number.to_string()).collect();
    assert_eq!(made(some.clone()).len(), some.len());
    let hours: Vec<String> = (0..60)
        .flat_map(|minute| ["30", "31"].map(|hour| format!("{hour}:{minute:02}:00")))
        .collect();
    assert_eq!(made(hours.clone()).len(), hours.len());
    let letters = || b'a'..=b'z';
    let pairs = letters().flat_map(|a| letters().map(move |b| String::from_utf8(vec![a, b]).unwrap()));
    let pairs: Vec<String> = pairs.collect();
    assert_eq!(made(pairs.clone()).len(), pairs.len());
    assert_eq!(
        of("Anna").to_lowercase(),
        of("aNNA").to_lowercase(),
        "equal in most collations"
    );
}

#[test]
fn a_name_in_double_quotes_is_told_from_a_string() {
    for text in [
        "SELECT \"a\" FROM \"t\"",
        "SELECT \"t\".\"a\" FROM t",
        "SELECT t.\"a\" FROM t",
        "INSERT INTO \"t\" VALUES ('x')",
        "UPDATE \"t\" SET a = 1",
        "SELECT 1 FROM a JOIN \"b\"",
        "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_TRANS_TABLES'",
        "SET @@sql_mode='ansi'",
    ] {
        assert!(has_ansi_quotes(text.as_bytes()), "{text}");
    }
    for text in [
        "SELECT \"a\" AS \"b\" FROM t WHERE c = \"d\" AND e LIKE \"FROM\"",
        "SELECT TRIM('x' FROM \"xa\"), EXTRACT(YEAR FROM \"2026-11-28\")",
        "INSERT INTO t VALUES (\"x\", \"y\")",
        "SET sql_mode = 'STRICT_TRANS_TABLES'",
        "SET @a = 'ANSI'",
    ] {
        assert!(!has_ansi_quotes(text.as_bytes()), "{text}");
    }
}
