//! The MySQL client protocol without I/O: packets, authentication, prepared statements, compression, TLS.
//!
//! # Driving a connection
//!
//! A [`Connection`] owns no socket and no clock. Connect the socket, make the connection, then repeat: write
//! [`Connection::outgoing`] and tell how much the socket took ([`Connection::sent`]); read the socket into any buffer
//! (one for all connections of a thread will do) and hand the bytes to [`Connection::advance`] until it gives `None`.
//! The server speaks first; [`Event::Ready`] says that commands can be given.
//!
//! ```no_run
//! # use std::{io::{Read, Write}, net::TcpStream, sync::Arc};
//! # use dyno_mysql::{Connection, Detail, Endpoint, Event, Options};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut socket = TcpStream::connect("127.0.0.1:3306")?;
//! let mut connection = Connection::new(Arc::new(Options::new(Endpoint::tcp("127.0.0.1", 3306), "root")));
//! let mut buffer = vec![0; 1 << 16];
//! loop {
//!     while !connection.outgoing().is_empty() {
//!         let count = socket.write(connection.outgoing())?;
//!         connection.sent(count);
//!     }
//!     let count = socket.read(&mut buffer)?;
//!     let mut input = &buffer[..count];
//!     while let Some(event) = connection.advance(&mut input)? {
//!         match event {
//!             Event::Ready => connection.query(b"SELECT 1", Detail::Skip)?,
//!             Event::Done(done) => println!("{} rows, {} bytes", done.rows, done.bytes),
//!             _ => {}
//!         }
//!     }
//! #   if count == 0 { return Ok(()) }
//! }
//! # }
//! ```
//!
//! A read of 0 bytes is the end: [`Connection::end_of_input`] says whether that was in order.
//!
//! # What to know
//!
//! - **Replies** come in the order of the commands. A command is over at `Event::Prepared`, at `Event::Failed`, or at the
//!   `Event::Done` whose `more_results` is false (several statements, or CALL). Commands may be given before earlier
//!   replies are complete; [`Connection::outstanding`] counts them.
//! - **Detail**: [`Detail::Skip`] finds the end of a reply from packet headers alone, and neither copies nor allocates;
//!   [`Detail::Rows`] gives columns and rows. A statement to be executed with `Rows` must be prepared with `Rows`.
//! - **Statements** belong to the connection that prepared them. `execute` takes `&mut Statement`, which remembers the
//!   parameter types that the server already knows: give a parameter the same [`Value`] variant each time.
//! - **Errors**: [`Event::Failed`] is the server's error in answer to a command, and the connection lives on.
//!   An [`Error`] ends the connection. Any input gives one or the other, never a panic.
//! - **Layers**: TLS and compression are inside; `outgoing` and `advance` carry the socket's own bytes.
//!   [`Counters`] tell raw, compressed and wire bytes apart. Without either layer, received bytes are parsed where they
//!   lie, and an idle connection holds about a kilobyte.
//! - **Phases**: [`Connection::phase`] after each `advance` tells greeting, TLS, authentication and readiness apart, for
//!   those who time them.
//! - **TLS**: [`TlsContext::new`] resolves [`TlsOptions`] once; put it in [`Options::tls`] and share it (one per thread).
//!
//! For a control connection, [`blocking::Client`] does all this over a socket of its own.

mod auth;
pub mod blocking;
mod command;
mod compress;
mod connection;
pub mod constants;
mod endpoint;
mod error;
mod handshake;
mod intake;
mod layers;
mod login;
mod options;
mod packet;
mod replies;
mod resultset;
mod tls;
mod value;

pub use compress::Compressor;
pub use connection::{Connection, Event, Phase};
pub use endpoint::Endpoint;
pub use error::{Error, ServerError, TlsField};
pub use handshake::{Greeting, ServerInfo};
pub use layers::Counters;
pub use options::{
    Charset, Compression, Options, Secret, CAPTURED_STATE, INHERITED_STATE, MEASURED_STATE, OWN_STATE,
    OWN_STATE_IN_TRANSACTIONS, STATE_FOR_A_DUMP,
};
pub use packet::{payload_length, Reader};
pub use replies::Detail;
pub use resultset::{end_of_rows, ok, Column, Done, Row, Statement, Values};
pub use tls::{TlsContext, TlsInfo, TlsMode, TlsOptions};
pub use value::{DateTime, Time, Value};
