//! Reads one server's status in a thread of its own, so that a server that does not answer holds up nothing else.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use crate::mysql::session::{Facts, Reading, Session};
use crate::mysql::status_family::Wanted;
use crate::mysql::Server;

/// Makes a new connection.
pub type Connect = Box<dyn FnMut() -> Result<Box<dyn Server>, String> + Send>;

/// One answer of the reading thread.
#[derive(Debug)]
pub struct Reply {
    /// What was read, or why not.
    pub reading: Result<Reading, String>,
    /// Told with the first reading of each new connection.
    pub facts: Option<Facts>,
}

/// The asking end.
#[derive(Debug)]
pub struct Reader {
    requests: SyncSender<()>,
    replies: Receiver<Reply>,
    waiting: bool,
    /// Whether what is waited for was asked for an earlier sample.
    overdue: bool,
    /// Readings that came after their sample was written, and were dropped.
    pub late: u64,
}

impl Reader {
    /// Starts the thread; the connection is made at the first request and again after an error.
    pub fn start(mut connect: Connect, wanted: Wanted) -> Self {
        let (requests, asked) = sync_channel::<()>(1);
        let (answers, replies) = sync_channel(1);
        thread::spawn(move || {
            let mut session = None;
            while asked.recv().is_ok() {
                if answers.send(reply(&mut session, &mut connect, &wanted)).is_err() {
                    return;
                }
            }
        });
        Self {
            requests,
            replies,
            waiting: false,
            overdue: false,
            late: 0,
        }
    }

    /// Asks for a reading, unless the one before is still under way. An answer that came too late is dropped and
    /// counted.
    pub fn ask(&mut self) {
        if self.waiting && self.replies.try_recv().is_ok() {
            self.waiting = false;
            self.late += 1;
        }
        self.overdue = self.waiting;
        if !self.waiting {
            self.waiting = self.requests.send(()).is_ok();
        }
    }

    /// The answer, when it comes in time. One that was asked for an earlier sample is dropped and counted: when within
    /// so long a wait the server read its counters is not known.
    pub fn answer(&mut self, patience: Duration) -> Option<Reply> {
        let reply = self.replies.recv_timeout(patience).ok()?;
        self.waiting = false;
        if self.overdue {
            self.late += 1;
            return None;
        }
        Some(reply)
    }
}

fn reply(session: &mut Option<Session>, connect: &mut Connect, wanted: &Wanted) -> Reply {
    let mut facts = None;
    if session.is_none() {
        match connect().and_then(|server| Session::start(server, wanted)) {
            Ok(started) => {
                facts = Some(started.facts.clone());
                *session = Some(started);
            }
            Err(message) => {
                return Reply {
                    reading: Err(message),
                    facts: None,
                }
            }
        }
    }
    let reading = session
        .as_mut()
        .map_or_else(|| Err("no connection".to_owned()), |session| session.read(wanted));
    if reading.is_err() {
        *session = None;
    }
    Reply { reading, facts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::Table;
    use std::sync::mpsc::{channel, Sender};

    /// Answers each statement after a word from the test.
    struct Slow(Receiver<()>, Sender<()>);

    impl Server for Slow {
        fn query(&mut self, statement: &str) -> Result<Table, String> {
            if statement.contains("GLOBAL STATUS") {
                self.1.send(()).unwrap();
                self.0.recv().map_err(|error| error.to_string())?;
            }
            Ok(crate::mysql::Table {
                columns: Vec::new(),
                rows: vec![vec![Some(b"Uptime".to_vec()), Some(b"7".to_vec())]],
            })
        }
    }

    #[test]
    fn an_answer_that_comes_too_late_is_dropped_and_counted() {
        let (allow, allowed) = channel();
        let (reached, at_server) = channel();
        let mut slow = Some(Slow(allowed, reached));
        let connect: Connect = Box::new(move || {
            slow.take()
                .map(|slow| Box::new(slow) as Box<dyn Server>)
                .ok_or("once".to_owned())
        });
        let mut reader = Reader::start(connect, Wanted::of(&[]));
        reader.ask();
        assert!(reader.answer(Duration::from_millis(1)).is_none());
        at_server.recv().unwrap();
        // Still under way: nothing new is asked, and what arrives belongs to the sample before.
        reader.ask();
        allow.send(()).unwrap();
        allow.send(()).unwrap();
        assert!(reader.answer(Duration::from_secs(60)).is_none());
        assert_eq!(reader.late, 1);
        reader.ask();
        allow.send(()).unwrap();
        let reply = reader.answer(Duration::from_secs(60)).unwrap();
        assert_eq!(
            reply.reading.unwrap().values,
            [None; 8].into_iter().chain([Some(7), None]).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_failed_connection_is_tried_again_at_the_next_request() {
        let mut tries = 0;
        let connect: Connect = Box::new(move || {
            tries += 1;
            Err(format!("try {tries}"))
        });
        let mut reader = Reader::start(connect, Wanted::of(&[]));
        for expected in ["try 1", "try 2"] {
            reader.ask();
            assert_eq!(
                reader.answer(Duration::from_secs(60)).unwrap().reading.unwrap_err(),
                expected
            );
        }
    }
}
