//! Server versions, as `SELECT VERSION()` tells them; the handshake's is not used, for some MariaDB prefix it with
//! `5.5.5-`.

/// Which server, in which version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// As the server says it.
    pub text: String,
    /// Whether it is MariaDB; everything else counts as MySQL.
    pub mariadb: bool,
    /// Major, minor, patch. MySQL's calendar versions (26.7.0) compare above 9.x, as they should.
    pub number: (u32, u32, u32),
}

impl Version {
    /// Reads a version; parts that are missing are 0.
    pub fn parse(text: &str) -> Self {
        let mariadb = text.to_ascii_lowercase().contains("mariadb");
        let digits = if mariadb {
            text.strip_prefix("5.5.5-").unwrap_or(text)
        } else {
            text
        };
        let end = digits
            .find(|c: char| c != '.' && !c.is_ascii_digit())
            .unwrap_or(digits.len());
        let mut parts = digits[..end].split('.').map(|part| part.parse().unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        Self {
            text: text.to_owned(),
            mariadb,
            number: (next(), next(), next()),
        }
    }

    /// Whether it is Oracle's MySQL or a descendant of it other than MariaDB, older than `number`.
    pub fn is_mysql_before(&self, number: (u32, u32, u32)) -> bool {
        !self.mariadb && self.number < number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_and_mariadb_is_known_by_name() {
        let maria = Version::parse("10.11.19-MariaDB-0+deb12u1");
        assert_eq!((maria.mariadb, maria.number), (true, (10, 11, 19)));
        assert_eq!(Version::parse("5.5.5-10.4.2-MariaDB").number, (10, 4, 2));
        assert_eq!(Version::parse("5.7.44-48-log").number, (5, 7, 44));
        assert_eq!(Version::parse("8.4.8").number, (8, 4, 8));
        assert!(Version::parse("26.7.0").number > Version::parse("9.7.4-2").number);
        assert_eq!(Version::parse("").number, (0, 0, 0));
    }

    #[test]
    fn mariadb_is_never_an_old_mysql() {
        assert!(!Version::parse("5.5.68-MariaDB").is_mysql_before((8, 0, 0)));
        assert!(Version::parse("5.6.40").is_mysql_before((8, 0, 0)));
    }
}
