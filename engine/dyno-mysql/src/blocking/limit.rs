//! How much of a result is kept.

use crate::error::Error;
use crate::intake::LONGEST_RESULT;

/// `kept` and these values with what memory each takes besides its bytes.
pub(super) fn within_limit(kept: usize, lengths: impl Iterator<Item = usize>) -> Result<usize, Error> {
    let kept = lengths.fold(kept + size_of::<Vec<u8>>(), |sum, length| {
        sum + length + size_of::<Option<Vec<u8>>>()
    });
    if kept > LONGEST_RESULT {
        let limit = LONGEST_RESULT >> 20;
        return Err(Error::protocol(format!(
            "the result of a control query has more than {limit} MiB"
        )));
    }
    Ok(kept)
}
