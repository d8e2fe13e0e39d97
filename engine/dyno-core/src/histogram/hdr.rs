//! Histograms in HdrHistogram's own type and its V2 form, which its tools in every language read. Values are nanoseconds.

use std::fmt::Display;
use std::io;

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};

use super::{Histogram, HIGHEST_NS};

const DIGITS: u8 = 3;

/// The same counts in HdrHistogram's own type; buckets agree, values above the range stand at its end.
///
/// # Panics
/// Never: the bounds are constants that the type accepts.
pub fn convert(histogram: &Histogram) -> hdrhistogram::Histogram<u64> {
    let mut converted =
        hdrhistogram::Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS).expect("constant bounds are valid");
    for (value, count) in histogram.buckets() {
        converted
            .record_n(value, count)
            .expect("every bucket is inside the bounds");
    }
    converted
}

/// One histogram as text for files: HdrHistogram's V2 form, deflated, in base 64.
///
/// # Errors
/// When it cannot be deflated.
pub fn encode(histogram: &Histogram) -> io::Result<String> {
    with(V2DeflateSerializer::new(), histogram)
}

/// As [`encode`], but not deflated, which takes ten times as long: for what is sent once a second.
///
/// # Errors
/// When it cannot be serialized.
pub fn encode_plain(histogram: &Histogram) -> io::Result<String> {
    with(V2Serializer::new(), histogram)
}

/// The counts of either text.
///
/// # Errors
/// When the text is not that of a histogram with the buckets of [`convert`].
pub fn decode(text: &str) -> io::Result<hdrhistogram::Histogram<u64>> {
    let bytes = STANDARD.decode(text).map_err(wrong)?;
    let decoded: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).map_err(wrong)?;
    if (decoded.low(), decoded.high(), decoded.sigfig()) == (1, HIGHEST_NS, DIGITS) {
        Ok(decoded)
    } else {
        Err(wrong("other buckets"))
    }
}

fn with(mut serializer: impl Serializer<SerializeError: Display>, histogram: &Histogram) -> io::Result<String> {
    let mut bytes = Vec::new();
    serializer
        .serialize(&convert(histogram), &mut bytes)
        .map_err(|error| io::Error::other(format!("a histogram cannot be encoded: {error}")))?;
    Ok(STANDARD.encode(bytes))
}

fn wrong(cause: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a histogram: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_texts_have_the_same_counts() {
        let mut histogram = Histogram::new();
        (1..10_000u64).for_each(|value| histogram.record(value * 1313));
        for text in [encode(&histogram).unwrap(), encode_plain(&histogram).unwrap()] {
            assert!(decode(&text).unwrap() == convert(&histogram));
        }
    }

    #[test]
    fn a_histogram_with_other_buckets_is_refused() {
        let mut bytes = Vec::new();
        let other: hdrhistogram::Histogram<u64> = hdrhistogram::Histogram::new_with_bounds(1, 1_000_000, 2).unwrap();
        V2Serializer::new().serialize(&other, &mut bytes).unwrap();
        assert!(decode(&STANDARD.encode(bytes))
            .unwrap_err()
            .to_string()
            .contains("other buckets"));
        assert!(decode("no base 64").is_err());
        assert!(decode("").is_err());
    }
}
