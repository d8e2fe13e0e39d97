//! A server that does nothing: it speaks enough of MySQL's protocol to be asked the OLTP workloads, and answers each
//! statement at once with an answer of the right shape. What a run against it costs is the generator and the path.

mod answers;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use answers::Shape;
use dyno_loop::transport::{Interest, Poller};

/// Where it listens.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket, removed at the end.
    Unix(UnixListener, PathBuf),
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Listens on an address such as 127.0.0.1:0.
    ///
    /// # Errors
    /// When the address is taken or not ours.
    pub fn tcp(address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(listener))
    }

    /// Listens on a path.
    ///
    /// # Errors
    /// When the path is taken or cannot be made.
    pub fn unix(path: PathBuf) -> io::Result<Self> {
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Unix(listener, path))
    }

    /// Where it listens, for a person or a program.
    pub fn describe(&self) -> String {
        match self {
            Self::Tcp(listener) => listener
                .local_addr()
                .map_or_else(|_| "?".into(), |address| address.to_string()),
            Self::Unix(_, path) => path.display().to_string(),
        }
    }

    fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Stream::Unix(stream)
            }
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // A file that is gone already is what is wanted.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Peer {
    stream: Stream,
    session: Session,
}

const LISTENER: u64 = u64::MAX;

/// Serves until `stopped` is set; looks at it every 100 ms.
///
/// # Errors
/// When the kernel refuses to wait or to accept. A peer that breaks off, or the protocol, only loses its connection.
pub fn serve(listener: &Listener, stopped: &AtomicBool) -> io::Result<()> {
    let mut poller = Poller::new(512)?;
    poller.add(listener, LISTENER, Interest::Read)?;
    let mut peers: Vec<Option<Peer>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while !stopped.load(Ordering::Relaxed) {
        let events = poller.wait(100_000_000)?;
        for event in 0..events {
            let token = poller.token(event);
            if token == LISTENER {
                accept_all(listener, &poller, &mut peers, &mut free)?;
                continue;
            }
            let index = token as usize;
            let keep = peers[index]
                .as_mut()
                .is_some_and(|peer| answer(peer, &poller, token, &mut buffer));
            if !keep && peers[index].take().is_some() {
                free.push(index);
            }
        }
    }
    Ok(())
}

fn accept_all(
    listener: &Listener,
    poller: &Poller,
    peers: &mut Vec<Option<Peer>>,
    free: &mut Vec<usize>,
) -> io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let index = free.pop().unwrap_or(peers.len());
        if index == peers.len() {
            peers.push(None);
        }
        poller.add(&stream, index as u64, Interest::Read)?;
        let mut peer = Peer {
            stream,
            session: Session::start(index as u32 + 1),
        };
        if send(&mut peer, poller, index as u64) {
            peers[index] = Some(peer);
        } else {
            free.push(index);
        }
    }
}

/// Takes what a peer sent and answers it; false when the peer is gone.
fn answer(peer: &mut Peer, poller: &Poller, token: u64, buffer: &mut [u8]) -> bool {
    match peer.stream.read(buffer) {
        Ok(0) => return false,
        Ok(count) => {
            if !peer.session.take(&buffer[..count]) {
                return false;
            }
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(_) => return false,
    }
    send(peer, poller, token)
}

fn send(peer: &mut Peer, poller: &Poller, token: u64) -> bool {
    while !peer.session.output.is_empty() {
        match peer.stream.write(&peer.session.output) {
            Ok(count) if count == peer.session.output.len() => peer.session.output.clear(),
            Ok(count) => drop(peer.session.output.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return poller.modify(&peer.stream, token, Interest::ReadWrite).is_ok();
            }
            Err(_) => return false,
        }
    }
    true
}

/// Longest packet that is taken; the workloads' are below 100 KB.
const LONGEST_PACKET: usize = 1 << 20;
const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;

/// A peer's state.
#[derive(Debug)]
pub struct Session {
    /// Bytes to be sent.
    pub output: Vec<u8>,
    input: Vec<u8>,
    logged_in: bool,
    statements: Vec<Shape>,
}

impl Session {
    /// A new peer: the greeting is in the output.
    pub fn start(connection: u32) -> Self {
        let mut output = Vec::with_capacity(256);
        answers::greeting(&mut output, connection);
        Self {
            output,
            input: Vec::new(),
            logged_in: false,
            statements: Vec::new(),
        }
    }

    /// Takes bytes and puts the answers into the output; false when the peer is to be dropped.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        // Whole packets are the rule: only a cut one is kept.
        if self.input.is_empty() {
            let used = match self.packets(bytes) {
                Some(used) => used,
                None => return false,
            };
            self.input.extend_from_slice(&bytes[used..]);
            return true;
        }
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let Some(used) = self.packets(&input) else { return false };
        input.drain(..used);
        self.input = input;
        true
    }

    /// Answers all whole packets; how many bytes they were, or none to drop the peer.
    fn packets(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut used = 0;
        while let Some(header) = bytes.get(used..used + 4) {
            let length = usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
            if length > LONGEST_PACKET {
                return None;
            }
            let Some(payload) = bytes.get(used + 4..used + 4 + length) else {
                break;
            };
            if !self.packet(header[3], payload) {
                return None;
            }
            used += 4 + length;
        }
        Some(used)
    }

    fn packet(&mut self, sequence: u8, payload: &[u8]) -> bool {
        if !self.logged_in {
            // Any account will do, by any plugin.
            self.logged_in = true;
            answers::ok(&mut self.output, sequence + 1, 0);
            return true;
        }
        let Some((command, body)) = payload.split_first() else {
            return false;
        };
        match *command {
            COM_QUIT => return false,
            COM_QUERY => answers::query(&mut self.output, &String::from_utf8_lossy(body)),
            COM_STMT_PREPARE => {
                let text = String::from_utf8_lossy(body);
                let shape = Shape::of(&text);
                self.statements.push(shape);
                let parameters = text.bytes().filter(|byte| *byte == b'?').count() as u16;
                answers::prepared(&mut self.output, self.statements.len() as u32, shape, parameters);
            }
            COM_STMT_EXECUTE => {
                let number = body.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                match self.statements.get((number as usize).wrapping_sub(1)) {
                    Some(shape) => answers::binary(&mut self.output, *shape),
                    None => return false,
                }
            }
            COM_STMT_CLOSE => {}
            // Ping, reset and whatever else has no rows.
            _ => answers::ok(&mut self.output, 1, 0),
        }
        true
    }
}
