//! An agent as the coordinator has it: starts its process, or connects to a Unix socket that leads to it; exchanges
//! messages with it, and leaves nothing of it behind.
//!
//! Every wait has an end, whatever the agent does or does not do.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dyno_core::clock::now_ns;
use dyno_loop::recorder::{Extra, Recorder};
use nix::fcntl::{fcntl, FcntlArg, OFlag};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{killpg, Signal};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde::Serialize;

use super::protocol::{self, Order};
use crate::error::Error;

/// What a process gets to end by itself, once its input has ended, before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// Longest line that is taken: some thousand times that of an interval.
const LONGEST_LINE_BYTES: usize = 256 << 20;
/// Longest wait without a look at what happens elsewhere.
pub const LOOK_NS: u64 = 50_000_000;
/// How much of its stderr is kept, from the end.
const KEPT_BYTES: usize = 2000;
/// What stands before the path of a socket, in place of a command.
const SOCKET: &str = "unix:";

/// What is received.
pub type Answer<E> = protocol::Answer<Box<Recorder<E>>>;

/// What agents can record.
pub trait Shippable: Extra + Serialize + DeserializeOwned {}

impl<E: Extra + Serialize + DeserializeOwned> Shippable for E {}

/// One agent.
#[derive(Debug)]
pub struct Peer {
    command: String,
    /// None where a socket leads to it.
    child: Option<Child>,
    /// None once it is to end.
    pipes: Option<Pipes>,
    received: Vec<u8>,
    /// How much of what was received has no line end.
    searched: usize,
    stderr_text: Vec<u8>,
}

#[derive(Debug)]
struct Pipes {
    input: File,
    output: File,
    /// None where stderr has ended.
    errors: Option<File>,
}

impl Peer {
    /// Starts a command, split into words as a shell does it, or connects to `unix:PATH`.
    ///
    /// # Errors
    /// When the command has an open quote, is empty, or cannot be started; when nothing listens at the socket.
    pub fn start(command: &str) -> Result<Self, Error> {
        let wrong = |problem: &str| Error::User(format!("--agent '{command}': {problem}"));
        let (child, pipes) = match command.strip_prefix(SOCKET) {
            Some(path) => (None, connect(path).map_err(|error| wrong(&error.to_string()))?),
            None => {
                let (child, pipes) = spawn(command)?;
                (Some(child), pipes)
            }
        };
        let peer = Self {
            command: command.to_string(),
            child,
            pipes: Some(pipes),
            received: Vec::new(),
            searched: 0,
            stderr_text: Vec::new(),
        };
        let refused = |error: nix::errno::Errno| Error::Host(format!("a pipe cannot be made non-blocking: {error}"));
        if let Some(pipes) = &peer.pipes {
            do_not_block(&pipes.input).map_err(refused)?;
            do_not_block(&pipes.output).map_err(refused)?;
            if let Some(errors) = &pipes.errors {
                do_not_block(errors).map_err(refused)?;
            }
        }
        Ok(peer)
    }

    /// The command that started it.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Who it is, for messages.
    pub fn name(&self) -> String {
        format!("agent '{}'", self.command)
    }

    /// Says something.
    ///
    /// # Errors
    /// When the process is gone, or does not listen until `deadline_ns`.
    pub fn send(&mut self, order: &Order, deadline_ns: u64) -> Result<(), String> {
        let line = protocol::line(order).map_err(|error| format!("cannot be written to: {error}"))?;
        let mut rest = &line[..];
        while !rest.is_empty() {
            let Some(pipes) = &mut self.pipes else {
                return Err("was ended already".into());
            };
            match pipes.input.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if now_ns() > deadline_ns {
                        return Err("does not read its input".into());
                    }
                    wait(&mut [PollFd::new(pipes.input.as_fd(), PollFlags::POLLOUT)], 100_000_000)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(self.why_it_ended()),
            }
        }
        Ok(())
    }

    /// Its next message, or none when it sends nothing for `wait_ns`.
    ///
    /// # Errors
    /// When the process is gone, or the message is not of the protocol.
    pub fn receive<E: Shippable>(&mut self, wait_ns: u64) -> Result<Option<Answer<E>>, String> {
        let until_ns = now_ns() + wait_ns;
        loop {
            if let Some(line) = self.take_line()? {
                return read_answer(&line).map(Some);
            }
            let now = now_ns();
            if now >= until_ns {
                return Ok(None);
            }
            if !self.take_bytes(until_ns - now)? {
                return Err(self.why_it_ended());
            }
        }
    }

    /// Its next message.
    ///
    /// # Errors
    /// As [`Self::receive`], when it sends nothing until `deadline_ns`, and when `interrupted` is set meanwhile.
    pub fn expect<E: Shippable>(&mut self, deadline_ns: u64, interrupted: &AtomicBool) -> Result<Answer<E>, String> {
        while now_ns() < deadline_ns {
            if let Some(answer) = self.receive(LOOK_NS)? {
                return Ok(answer);
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err("was waited for when this program was interrupted".into());
            }
        }
        Err(format!("does not answer{}", self.last_words()))
    }

    fn take_line(&mut self) -> Result<Option<Vec<u8>>, String> {
        let Some(end) = self.received[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.received.len();
            if self.searched > LONGEST_LINE_BYTES {
                return Err("sends a line without a newline".into());
            }
            return Ok(None);
        };
        let rest = self.received.split_off(self.searched + end + 1);
        self.searched = 0;
        Ok(Some(std::mem::replace(&mut self.received, rest)))
    }

    /// Waits for bytes and takes them; false when there will be no more.
    fn take_bytes(&mut self, wait_ns: u64) -> Result<bool, String> {
        let Some(pipes) = &mut self.pipes else { return Ok(false) };
        let mut waiting = vec![PollFd::new(pipes.output.as_fd(), PollFlags::POLLIN)];
        if let Some(errors) = &pipes.errors {
            waiting.push(PollFd::new(errors.as_fd(), PollFlags::POLLIN));
        }
        wait(&mut waiting, wait_ns)?;
        self.listen_to_errors();
        let Some(pipes) = &mut self.pipes else { return Ok(false) };
        let mut buffer = [0; 64 * 1024];
        match pipes.output.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.received.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(true),
            Err(error) => Err(format!("cannot be read: {error}")),
        }
    }

    fn listen_to_errors(&mut self) {
        let Some(pipes) = &mut self.pipes else { return };
        let mut buffer = [0; 4096];
        while let Some(errors) = &mut pipes.errors {
            match errors.read(&mut buffer) {
                Ok(0) => pipes.errors = None,
                Ok(count) => self.stderr_text.extend_from_slice(&buffer[..count]),
                // Nothing there now, or nothing that can be read: stderr only explains.
                Err(_) => break,
            }
            let excess = self.stderr_text.len().saturating_sub(KEPT_BYTES);
            self.stderr_text.drain(..excess);
        }
    }

    /// How it ended, and the last text of its stderr.
    fn why_it_ended(&mut self) -> String {
        let deadline = Instant::now() + GRACE;
        let status = loop {
            match self.child.as_mut().map(Child::try_wait) {
                None => break "closed the connection".into(),
                Some(Ok(Some(status))) => break format!("ended ({status})"),
                Some(Ok(None)) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                Some(_) => break "closed its output".into(),
            }
        };
        self.listen_to_errors();
        format!("{status}{}", self.last_words())
    }

    fn last_words(&self) -> String {
        let text = String::from_utf8_lossy(&self.stderr_text);
        match text.trim() {
            "" => String::new(),
            words => format!(", with the output: {words}"),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // An agent ends at the end of its input.
        self.pipes = None;
        let Some(child) = &mut self.child else { return };
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                // It has ended, or is not ours to wait for.
                _ => return,
            }
        }
        // With whatever it has started itself. A process that ends meanwhile is what is wanted.
        let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
        let _ = child.wait();
    }
}

fn spawn(command: &str) -> Result<(Child, Pipes), Error> {
    let wrong = |problem: &str| Error::User(format!("--agent '{command}': {problem}"));
    let words = shlex::split(command).ok_or_else(|| wrong("a quote is not closed"))?;
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| wrong("there is no command; write one that starts `dynoload agent`"))?;
    let mut child = Command::new(program)
        .args(arguments)
        // The password goes through the pipe alone.
        .env_remove(crate::host::PASSWORD_VARIABLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C is for the coordinator, which cancels its agents; and what a wrapper has started ends with it.
        .process_group(0)
        .spawn()
        .map_err(|error| wrong(&format!("'{program}' cannot be started: {error}")))?;
    match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
        (Some(input), Some(output), Some(errors)) => {
            let pipes = Pipes {
                input: OwnedFd::from(input).into(),
                output: OwnedFd::from(output).into(),
                errors: Some(OwnedFd::from(errors).into()),
            };
            Ok((child, pipes))
        }
        _ => Err(wrong("it has no pipes")),
    }
}

fn connect(path: &str) -> std::io::Result<Pipes> {
    let stream = UnixStream::connect(path)?;
    Ok(Pipes {
        input: OwnedFd::from(stream.try_clone()?).into(),
        output: OwnedFd::from(stream).into(),
        errors: None,
    })
}

fn do_not_block(pipe: &impl AsFd) -> nix::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(pipe, FcntlArg::F_GETFL)?);
    fcntl(pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(drop)
}

fn wait(pipes: &mut [PollFd<'_>], wait_ns: u64) -> Result<(), String> {
    let milliseconds = wait_ns.div_ceil(1_000_000).min(100) as u8;
    match poll(pipes, PollTimeout::from(milliseconds)) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(format!("cannot be waited for: {error}")),
    }
}

fn read_answer<E: Shippable>(line: &[u8]) -> Result<Answer<E>, String> {
    serde_json::from_slice(line).map_err(|error| {
        let text = String::from_utf8_lossy(&line[..line.len().min(200)]);
        format!(
            "sent '{}', which is not a message of an agent of this version ({error}); does the command end in \
             `dynoload agent`, and prints nothing else?",
            text.trim()
        )
    })
}

/// The error of a message that is not expected at this point.
pub fn out_of_turn<E: Shippable>(answer: &Answer<E>) -> String {
    let words = format!("{answer:?}");
    format!("sent an unexpected message: {}", words.get(..200).unwrap_or(&words))
}

// How far another host's clock is from ours, from requests and replies over the pipe (Cristian, "Probabilistic clock
// synchronization", 1989).
//
// The other host read its clock between the request and the arrival of its reply, so the clock's offset is known to half of the
// round trip: that is a bound, not a guess, and the shortest round trip has the least.

/// Requests for one estimate.
pub const ROUNDS: usize = 32;

/// One request and its reply.
#[derive(Debug, Clone, Copy)]
struct Round {
    sent_ns: u64,
    theirs_ns: u64,
    received_ns: u64,
}

/// An estimate of another clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// What is to be added to our time for theirs.
    pub offset_ns: i64,
    /// How wrong the offset can be at most.
    pub error_ns: u64,
}

impl Clock {
    /// Requests the time of an agent [`ROUNDS`] times.
    ///
    /// # Errors
    /// When the agent is gone, does not reply until `deadline_ns`, or `interrupted` is set meanwhile.
    pub fn measure<E: Shippable>(peer: &mut Peer, deadline_ns: u64, interrupted: &AtomicBool) -> Result<Self, String> {
        let mut best: Option<Round> = None;
        for _ in 0..ROUNDS {
            let sent_ns = now_ns();
            peer.send(&Order::Ping, deadline_ns)?;
            let theirs_ns = match peer.expect::<E>(deadline_ns, interrupted)? {
                protocol::Answer::Pong { now_ns } => now_ns,
                other => return Err(out_of_turn(&other)),
            };
            let round = Round {
                sent_ns,
                theirs_ns,
                received_ns: now_ns(),
            };
            if best.is_none_or(|best| round.trip_ns() < best.trip_ns()) {
                best = Some(round);
            }
        }
        best.map(Round::clock).ok_or_else(|| "its clock was not read".into())
    }

    /// Their time in ours.
    pub fn ours(&self, theirs_ns: u64) -> u64 {
        theirs_ns.saturating_add_signed(-self.offset_ns)
    }

    /// Our time in theirs.
    pub fn theirs(&self, ours_ns: u64) -> u64 {
        ours_ns.saturating_add_signed(self.offset_ns)
    }
}

impl Round {
    fn trip_ns(&self) -> u64 {
        self.received_ns - self.sent_ns
    }

    fn clock(self) -> Clock {
        let middle_ns = self.sent_ns + self.trip_ns() / 2;
        Clock {
            offset_ns: self.theirs_ns.wrapping_sub(middle_ns) as i64,
            error_ns: self.trip_ns().div_ceil(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_true_offset_is_within_the_bound_whatever_the_ways_take(
            offset_ns in -1_000_000_000_000i64..1_000_000_000_000, there_ns in 0u64..1_000_000, back_ns in 0u64..1_000_000,
        ) {
            let sent_ns = 5_000_000_000_000u64;
            let theirs_ns = (sent_ns + there_ns).saturating_add_signed(offset_ns);
            let clock = Round { sent_ns, theirs_ns, received_ns: sent_ns + there_ns + back_ns }.clock();
            prop_assert!(clock.offset_ns.abs_diff(offset_ns) <= clock.error_ns, "{clock:?}");
            prop_assert_eq!(clock.error_ns, (there_ns + back_ns).div_ceil(2));
            prop_assert!(clock.theirs(sent_ns + there_ns).abs_diff(theirs_ns) <= clock.error_ns);
        }
    }
}
