//! Captured statements: readers of the servers' logs, and the capture format.
//!
//! # From a log to a capture
//!
//! [`LogKind::recognise`] finds out from a file's first bytes what it is: a log, or packets. A [`LogReader`] reads it and
//! gives what it finds to an [`Assembler`], which numbers the sessions, follows their default schemas and puts all in the
//! order of time: [`Capture`]. Nothing in a log is an error: what cannot be read is counted in [`Problems`], each kind with
//! the places of the first ones.
//!
//! A [`Capture`] is written and read as JSON lines (docs/reference/capture.md).
//!
//! # Statements
//!
//! [`lexer`] splits a statement into tokens; [`digest()`] replaces its literals by `?`; [`Anonymiser`] replaces them by
//! pseudonyms; [`class`] finds out whether a statement only reads.

mod anonymise;
mod assembler;
pub mod class;
mod compound;
mod digest;
mod event;
mod format;
mod general_log;
mod history;
mod implicit;
pub mod lexer;
mod log;
mod nondeterminism;
mod packets;
mod problems;
mod query;
pub mod reach;
mod selection;
mod slow_log;
pub mod statements;
mod timeline;
mod timestamp;
mod transactions;
mod unique;

pub use anonymise::{has_ansi_quotes, Anonymiser, KEY_BYTES};
pub use assembler::{Assembler, Assumed, Origin};
pub use digest::{digest, digest_label, fingerprint, Fingerprint};
pub use event::{Action, Capture, Event, Header, Raw, RawAction, Source, Statement};
pub use format::{is_capture, read, write, FormatError, FORMAT, FORMAT_VERSION};
pub use history::{History, HistoryRow, DIGEST_COLUMNS, HISTORY_COLUMNS};
pub use log::{LogKind, LogReader};
pub use nondeterminism::{adds_up, has_order, nondeterministic, Freedom, Varying};
pub use packets::is_charset;
pub use problems::{LogPosition, Problem, ProblemCount, Problems, FIRST_PLACES};
pub use selection::{needs_default_schema, Selection};
pub use transactions::{Span, Transaction, Transactions, Wanted};
pub use unique::{extent, Extent, UniqueKeys};
