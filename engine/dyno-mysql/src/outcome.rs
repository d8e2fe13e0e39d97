//! The packets that end a command: OK, EOF, an error.

use crate::constants::status;
use crate::error::{Error, ServerError};
use crate::packet::{text, Reader};
use crate::resultset::Done;

/// Takes an OK packet apart (also one with the end marker, in the place of an EOF).
///
/// # Errors
/// When it is shorter than it has to be.
pub fn ok(payload: &[u8]) -> Result<Done, Error> {
    let mut reader = Reader::new(&payload[1..]);
    let affected_rows = reader.length_encoded("affected rows")?;
    let last_insert_id = reader.length_encoded("last insert id")?;
    let status = reader.u16("status")?;
    let warnings = reader.u16("warnings")?;
    let more_results = status & status::MORE_RESULTS != 0;
    Ok(Done {
        affected_rows,
        last_insert_id,
        status,
        warnings,
        more_results,
        ..Done::default()
    })
}

/// An EOF packet has 5 bytes, an OK in its place at least 7.
///
/// # Errors
/// When it is shorter than it has to be.
pub fn end_of_rows(payload: &[u8]) -> Result<Done, Error> {
    if payload.len() >= 7 {
        return ok(payload);
    }
    let mut reader = Reader::new(&payload[1..]);
    let warnings = reader.u16("warnings")?;
    let status = reader.u16("status")?;
    Ok(Done {
        warnings,
        status,
        more_results: status & status::MORE_RESULTS != 0,
        ..Done::default()
    })
}

/// Several times `MYSQL_ERRMSG_SIZE`, beyond which servers cut their messages.
const MOST_MESSAGE_BYTES: usize = 2048;

/// Takes an error packet apart; before the handshake it has no SQL state.
pub(crate) fn server_error(payload: &[u8]) -> Result<ServerError, Error> {
    let mut reader = Reader::new(&payload[1..]);
    let code = reader.u16("error code")?;
    let rest = reader.rest();
    let (sql_state, message) = match rest {
        [b'#', state @ ..] if state.len() >= 5 => ([state[0], state[1], state[2], state[3], state[4]], &state[5..]),
        message => (*b"HY000", message),
    };
    Ok(ServerError {
        code,
        sql_state,
        message: text(message, MOST_MESSAGE_BYTES),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ok_tells_rows_identity_status_and_warnings() {
        let done = ok(&[0, 3, 0xfc, 1, 2, 0x0b, 0, 4, 0, b'x']).unwrap();
        assert_eq!(
            (done.affected_rows, done.last_insert_id, done.status, done.warnings),
            (3, 0x201, 11, 4)
        );
        assert!(done.more_results);
        assert!(ok(&[0, 3, 0, 2, 0, 0]).is_err());
    }

    #[test]
    fn an_error_is_one_line_of_a_length_that_servers_write() {
        let error = |message: &[u8]| server_error(&[b"\xff\x7a\x04#42S02", message].concat()).unwrap();
        let found = error(b"near 'FROM t\r\n  WHERE'");
        assert_eq!((found.code, found.message.as_str()), (1146, "near 'FROM t WHERE'"));
        assert_eq!(error(&[b'E'; 1 << 20]).message.len(), MOST_MESSAGE_BYTES + "…".len());
    }

    #[test]
    fn the_end_of_rows_is_read_in_both_forms() {
        let eof = end_of_rows(&[0xfe, 1, 0, 8, 0]).unwrap();
        assert_eq!((eof.warnings, eof.more_results), (1, true));
        let ok = end_of_rows(&[0xfe, 0, 0, 2, 0, 1, 0]).unwrap();
        assert_eq!((ok.warnings, ok.more_results), (1, false));
        assert!(end_of_rows(&[0xfe, 1]).is_err());
    }

    #[test]
    fn an_error_has_its_sql_state_or_the_general_one() {
        let with = server_error(b"\xff\xbd\x04#40001Deadlock found").unwrap();
        assert_eq!(
            (with.code, with.sql_state(), with.message.as_str()),
            (1213, "40001", "Deadlock found")
        );
        let without = server_error(b"\xff\x10\x04Too many connections").unwrap();
        assert_eq!((without.code, without.sql_state()), (1040, "HY000"));
        assert_eq!(server_error(b"\xff\x10\x04#4").unwrap().message, "#4");
    }
}
