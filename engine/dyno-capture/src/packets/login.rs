//! How a client logs in: its answer to the server's greeting, and COM_CHANGE_USER.

use dyno_mysql::constants::capability;
use dyno_mysql::{Error, Reader};

/// The length of a request for TLS: the beginning of an answer.
const TLS_REQUEST: usize = 32;

/// What a client has answered.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// What follows is encrypted.
    Tls,
    Login(Login),
}

/// Who logs in.
#[derive(Debug, PartialEq, Eq)]
pub struct Login {
    pub capabilities: u64,
    pub user: String,
    pub schema: Option<String>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Takes the answer to a greeting apart.
///
/// # Errors
/// When it is none.
pub fn answer(payload: &[u8]) -> Result<Answer, Error> {
    let mut reader = Reader::new(payload);
    let mut capabilities = u64::from(reader.u32("capabilities")?);
    reader.bytes(4 + 1 + 19, "longest packet and character set")?;
    let extended = reader.u32("extended capabilities")?;
    if capabilities & capability::MYSQL == 0 {
        capabilities |= u64::from(extended) << 32;
    }
    if capabilities & capability::SSL != 0 && payload.len() == TLS_REQUEST {
        return Ok(Answer::Tls);
    }
    let user = text(reader.until_zero());
    if capabilities & capability::PLUGIN_AUTH_LENENC_DATA != 0 {
        reader.length_encoded_bytes("authentication")?;
    } else if capabilities & capability::SECURE_CONNECTION != 0 {
        let length = reader.u8("length of the authentication")?;
        reader.bytes(length.into(), "authentication")?;
    } else {
        reader.until_zero();
    }
    let has_schema = capabilities & capability::CONNECT_WITH_DB != 0;
    let schema = has_schema
        .then(|| text(reader.until_zero()))
        .filter(|schema| !schema.is_empty());
    Ok(Answer::Login(Login {
        capabilities,
        user,
        schema,
    }))
}

/// User and schema of COM_CHANGE_USER, from what follows its number.
///
/// # Errors
/// When it ends early.
pub fn change(payload: &[u8]) -> Result<(String, Option<String>), Error> {
    let mut reader = Reader::new(payload);
    let user = text(reader.until_zero());
    let length = reader.u8("length of the authentication")?;
    reader.bytes(length.into(), "authentication")?;
    let schema = Some(text(reader.until_zero())).filter(|schema| !schema.is_empty());
    Ok((user, schema))
}
