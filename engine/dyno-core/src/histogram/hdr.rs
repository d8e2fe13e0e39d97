//! Histograms in HdrHistogram's own type and its V2 form, which its tools in every language read. Values are nanoseconds.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{self, V2DeflateSerializer, V2Serializer};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{index_of, Histogram, HIGHEST_NS};

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
    let decoded: hdrhistogram::Histogram<u64> = serialization::Deserializer::new()
        .deserialize(&mut &bytes[..])
        .map_err(wrong)?;
    if (decoded.low(), decoded.high(), decoded.sigfig()) == (1, HIGHEST_NS, DIGITS) {
        Ok(decoded)
    } else {
        Err(wrong("other buckets"))
    }
}

fn with(
    mut serializer: impl serialization::Serializer<SerializeError: Display>,
    histogram: &Histogram,
) -> io::Result<String> {
    let mut bytes = Vec::new();
    serializer
        .serialize(&convert(histogram), &mut bytes)
        .map_err(|error| io::Error::other(format!("a histogram cannot be encoded: {error}")))?;
    Ok(STANDARD.encode(bytes))
}

fn wrong(cause: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a histogram: {cause}"))
}

/// Every field of a histogram with values; one without travels as null.
#[derive(Serialize, Deserialize)]
struct Travelling {
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
    above_range: u64,
    /// [`encode_plain`].
    counts: String,
}

impl Travelling {
    /// The histogram, when its parts agree with one another.
    fn restore(&self) -> Option<Histogram> {
        let mut histogram = Histogram::new();
        for bucket in decode(&self.counts).ok()?.iter_recorded() {
            let count = bucket.count_since_last_iteration();
            histogram.counts[index_of(bucket.value_iterated_to())] = count;
            histogram.total = histogram.total.checked_add(count)?;
        }
        let in_use = |index: &usize| histogram.counts[*index] > 0;
        let ends = [self.min_ns, self.max_ns].map(|value_ns| index_of(value_ns.min(HIGHEST_NS)));
        let found = [
            (0..histogram.counts.len()).find(in_use)?,
            (0..histogram.counts.len()).rfind(in_use)?,
        ];
        if found != ends || self.above_range > histogram.total {
            return None;
        }
        histogram.sum_ns = self.sum_ns;
        histogram.min_ns = self.min_ns;
        histogram.max_ns = self.max_ns;
        histogram.above_range = self.above_range;
        Some(histogram)
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.total == 0 {
            return serializer.serialize_none();
        }
        Travelling {
            sum_ns: self.sum_ns,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            above_range: self.above_range,
            counts: encode_plain(self).map_err(S::Error::custom)?,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<Travelling>::deserialize(deserializer)? {
            None => Ok(Self::new()),
            Some(travelling) => travelling
                .restore()
                .ok_or_else(|| D::Error::custom("a histogram whose buckets are not those of its figures")),
        }
    }
}

// Histograms as an HDR log, format 1.3 with V2-deflate payloads, which HdrHistogram's tools in every language read.
//
// One line an interval and tag. Values and maxima are nanoseconds.

/// One interval of one kind of value.
#[derive(Debug)]
pub struct Interval<'a> {
    /// Kind of value, such as `response` or `service.point_select`; no comma, white space or line break.
    pub tag: &'a str,
    /// Start, after the log's start.
    pub start: Duration,
    /// Length.
    pub length: Duration,
    /// The values.
    pub histogram: &'a Histogram,
}

/// A log under way; each interval is a line of its own, so a broken run leaves a log that can be read.
pub struct HdrLog<W: Write> {
    writer: W,
    serializer: V2DeflateSerializer,
}

impl<W: Write> std::fmt::Debug for HdrLog<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HdrLog").finish_non_exhaustive()
    }
}

impl<W: Write> HdrLog<W> {
    /// Starts a log with its comments and start time.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn start(mut writer: W, start: SystemTime, comments: &[&str]) -> io::Result<Self> {
        let mut serializer = V2DeflateSerializer::new();
        let mut builder = IntervalLogWriterBuilder::new();
        builder
            .add_comment("[Histogram log format version 1.3]")
            .add_comment("values and maxima are in nanoseconds");
        for comment in comments {
            builder.add_comment(comment);
        }
        builder
            .with_start_time(start)
            .begin_log_with(&mut writer, &mut serializer)?;
        writeln!(
            writer,
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
        )?;
        Ok(Self { writer, serializer })
    }

    /// Writes one interval.
    ///
    /// # Errors
    /// When the writer fails, or the tag has a character that the format cannot carry.
    pub fn record(&mut self, interval: &Interval<'_>) -> io::Result<()> {
        let tag = Tag::new(interval.tag)
            .ok_or_else(|| io::Error::other(format!("'{}' cannot be a tag of an HDR log", interval.tag)))?;
        // A builder without comments and times writes no header: this only appends a line.
        IntervalLogWriterBuilder::new()
            .begin_log_with(&mut self.writer, &mut self.serializer)?
            .write_histogram(&convert(interval.histogram), interval.start, interval.length, Some(tag))
            .map_err(|error| io::Error::other(format!("HDR log: {error}")))?;
        self.writer.flush()
    }

    /// Gives the writer back.
    pub fn into_inner(self) -> W {
        self.writer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use hdrhistogram::serialization::Serializer as _;
    use proptest::prelude::*;

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

    fn same(left: &Histogram, right: &Histogram) -> bool {
        left.counts == right.counts
            && (left.total, left.sum_ns, left.min_ns, left.max_ns, left.above_range)
                == (right.total, right.sum_ns, right.min_ns, right.max_ns, right.above_range)
    }

    proptest! {
        #[test]
        fn what_travels_arrives_whole(
            values in proptest::collection::vec((0u32..64, any::<u64>(), 1u64..1000), 0..100),
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|(shift, value, count)| histogram.record_many(value >> shift, *count));
            let text = serde_json::to_string(&histogram).unwrap();
            let arrived: Histogram = serde_json::from_str(&text).unwrap();
            prop_assert!(same(&histogram, &arrived), "{}", text);
        }
    }

    fn travelling(change: impl FnOnce(&mut Travelling)) -> String {
        let mut histogram = Histogram::new();
        histogram.record_many(5, 3);
        histogram.record(9);
        let text = serde_json::to_string(&histogram).unwrap();
        let mut travelling: Travelling = serde_json::from_str(&text).unwrap();
        change(&mut travelling);
        serde_json::to_string(&travelling).unwrap()
    }

    #[test]
    fn the_counts_are_those_that_tools_of_hdrhistogram_read() {
        assert_eq!(serde_json::to_string(&Histogram::new()).unwrap(), "null");
        let sent: Travelling = serde_json::from_str(&travelling(|_| ())).unwrap();
        assert_eq!((sent.sum_ns, sent.min_ns, sent.max_ns, sent.above_range), (24, 5, 9, 0));
        let counts = decode(&sent.counts).unwrap();
        assert_eq!((counts.len(), counts.count_at(5), counts.count_at(9)), (4, 3, 1));
    }

    #[test]
    fn parts_that_do_not_agree_are_refused() {
        let refused = |text: &str| serde_json::from_str::<Histogram>(text).is_err();
        assert!(!refused(&travelling(|_| ())));
        assert!(refused(&travelling(|sent| sent.min_ns = 4)));
        assert!(refused(&travelling(|sent| sent.max_ns = 10)));
        assert!(refused(&travelling(|sent| sent.above_range = 5)));
        assert!(refused(&travelling(|sent| sent.counts.truncate(20))));
        let empty = encode_plain(&Histogram::new()).unwrap();
        assert!(refused(&travelling(|sent| sent.counts = empty)));
    }

    #[test]
    fn a_written_log_reads_back_with_the_same_percentiles() {
        let mut histogram = Histogram::new();
        (1..10_000u64).for_each(|value| histogram.record(value * 1313));
        let interval = Interval {
            tag: "response",
            start: Duration::from_secs(3),
            length: Duration::from_secs(1),
            histogram: &histogram,
        };
        let mut log = HdrLog::start(Vec::new(), SystemTime::UNIX_EPOCH, &["dynoload"]).unwrap();
        log.record(&interval).unwrap();
        let written = log.into_inner();
        assert!(written.starts_with(b"#[Histogram log format version 1.3]\n"));
        let entry = IntervalLogIterator::new(&written)
            .filter_map(|entry| match entry.unwrap() {
                LogEntry::Interval(interval) => Some(interval),
                _ => None,
            })
            .next()
            .unwrap();
        assert_eq!(
            (entry.tag().unwrap().as_str(), entry.start_timestamp()),
            ("response", Duration::from_secs(3))
        );
        let read = crate::histogram::hdr::decode(entry.encoded_histogram()).unwrap();
        for percentile in [10.0, 50.0, 99.0, 99.9] {
            assert_eq!(
                read.value_at_percentile(percentile),
                histogram.percentile_ns(percentile)
            );
        }
        assert_eq!(read.len(), histogram.count());
    }

    #[test]
    fn a_tag_that_would_break_the_log_is_an_error() {
        let histogram = Histogram::new();
        let interval = Interval {
            tag: "a,b",
            start: Duration::ZERO,
            length: Duration::ZERO,
            histogram: &histogram,
        };
        let mut log = HdrLog::start(Vec::new(), SystemTime::UNIX_EPOCH, &[]).unwrap();
        assert!(log.record(&interval).is_err());
    }
}
