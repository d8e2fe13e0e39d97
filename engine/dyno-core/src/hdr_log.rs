//! Histograms as an HDR log, format 1.3 with V2-deflate payloads, which HdrHistogram's tools in every language read.
//!
//! One line an interval and tag. Values and maxima are nanoseconds.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::V2DeflateSerializer;

use crate::histogram::hdr::convert;
use crate::histogram::Histogram;

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
