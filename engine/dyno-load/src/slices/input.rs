//! Where commands come from: the standard input, read on a separate thread, and signals.

use std::io::BufRead as _;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;

use dyno_core::clock::now_ns;

use crate::error::Error;

/// What may come while the load is on hold.
#[derive(Debug)]
pub enum Event {
    /// A line, and when it was read.
    Line(String, u64),
    /// The end of the input.
    EndOfInput,
    /// SIGINT or SIGTERM.
    Interrupted,
}

/// The events, in their order.
#[derive(Debug)]
pub struct Input {
    /// Set by the first SIGINT or SIGTERM.
    pub interrupted: Arc<AtomicBool>,
    pub(super) events: Receiver<Event>,
}

impl Input {
    /// Takes the signals and the standard input; to be called before any other thread is started.
    ///
    /// # Errors
    /// When the signals cannot be taken, or there is no thread.
    pub fn open() -> Result<Self, Error> {
        let (sender, events) = channel();
        let signals = sender.clone();
        let interrupted = crate::host::interruption_with(move || {
            // The receiver is gone when the program ends anyway.
            let _ = signals.send(Event::Interrupted);
        })?;
        std::thread::Builder::new().name("input".into()).spawn(move || {
            for line in std::io::stdin().lock().split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                if sender.send(Event::Line(line, now_ns())).is_err() {
                    return;
                }
            }
            let _ = sender.send(Event::EndOfInput);
        })?;
        Ok(Self { interrupted, events })
    }
}
