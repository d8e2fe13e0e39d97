//! A watched server: its reader, its last reading, and the families made of it.

use std::time::Duration;

use crate::arguments::{Access, Instance};
use crate::clock::Clock;
use crate::collector::{Family, Subject};
use crate::families::ALL;
use crate::machine::Process;
use crate::mysql::reader::{Connect, Reader};
use crate::mysql::session::{Facts, Reading};
use crate::mysql::status_family::{StatusFamily, StatusView, Wanted};
use crate::mysql::{Dump, Live, Server};
use crate::record::{Availability, InstanceFacts};
use crate::roster::{Health, Notice};
use crate::sample::Sample;

/// Name under which the shared reading fails and recovers; the families made of it fail with it.
const FAMILY: &str = "mysql_status";

/// How long the first answer, which tells the version, is waited for.
const FIRST_PATIENCE: Duration = Duration::from_secs(3);

/// One server.
pub struct WatchedServer {
    /// Its process.
    pub process: Process,
    scope: String,
    status: Option<Status>,
    facts: Option<Facts>,
    /// How its reading does.
    pub health: Health,
}

struct Status {
    reader: Reader,
    view: StatusView,
}

fn families() -> impl Iterator<Item = (&'static Family, &'static StatusFamily)> {
    ALL.iter().filter_map(|family| match family.subject {
        Subject::Status(status) => Some((family, status)),
        _ => None,
    })
}

fn connect(access: Access) -> Option<Connect> {
    match access {
        Access::None => None,
        Access::Connect(options) => Some(Box::new(move || Live::connect(&options))),
        Access::Dump(folder) => Some(Box::new(move || {
            Ok(Box::new(Dump::new(folder.clone())) as Box<dyn Server>)
        })),
    }
}

impl WatchedServer {
    /// Begins to watch; begins to connect when there is a way to.
    pub fn new(instance: Instance) -> Self {
        let mut status = connect(instance.access).map(|connect| {
            let wanted = Wanted::of(&families().map(|(_, status)| status).collect::<Vec<_>>());
            Status {
                reader: Reader::start(connect, wanted.clone()),
                view: StatusView::new(wanted),
            }
        });
        // Asked now, so that several servers are waited for at the same time.
        if let Some(status) = &mut status {
            status.reader.ask();
        }
        let scope = instance.process.scope();
        let health = Health::new(FAMILY, &scope);
        Self {
            process: instance.process,
            scope,
            status,
            facts: None,
            health,
        }
    }

    /// Waits a little for the first answer, which is read for its facts only, and says which families there will be:
    /// none without a way to its status.
    pub fn first_answer(&mut self) -> (InstanceFacts, Vec<Availability>) {
        let answered = match &mut self.status {
            None => return (self.facts(), Vec::new()),
            Some(status) => match status.reader.answer(FIRST_PATIENCE) {
                Some(reply) => {
                    self.facts = reply.facts;
                    reply.reading.map(|_| ())
                }
                None => Err(format!(
                    "no answer within {} s; it will be tried again",
                    FIRST_PATIENCE.as_secs()
                )),
            },
        };
        (self.facts(), self.availability(answered.err()))
    }

    fn availability(&self, reason: Option<String>) -> Vec<Availability> {
        let one = |name: &'static str, reason: Option<String>| Availability {
            name,
            scope: Some(self.scope.clone()),
            available: reason.is_none(),
            reason,
        };
        families()
            .map(|(family, _)| {
                let redo = self.facts.as_ref().and_then(|facts| facts.redo_source.as_ref().err());
                let redo = redo.filter(|_| family.name == "innodb_redo");
                one(family.name, reason.clone().or_else(|| redo.cloned()))
            })
            .collect()
    }

    fn facts(&self) -> InstanceFacts {
        let facts = self.facts.as_ref();
        InstanceFacts {
            id: self.process.id.clone(),
            pid: self.process.pid,
            version: facts.map(|facts| facts.version.clone()),
            version_comment: facts.map(|facts| facts.version_comment.clone()),
            redo_source: facts.and_then(|facts| facts.redo_source.clone().ok()),
        }
    }

    /// Asks for a reading; the answer is taken by [`Self::collect`].
    pub fn ask(&mut self) {
        if let Some(status) = &mut self.status {
            status.reader.ask();
        }
    }

    /// Takes the answer when it comes in time, and adds its metrics.
    pub fn collect(&mut self, clock: &Clock, patience: Duration, sample: &mut Sample) -> Vec<Notice> {
        let Some(status) = &mut self.status else {
            return Vec::new();
        };
        let Some(reply) = status.reader.answer(patience) else {
            let message = "no answer in time for the sample: within half the interval, at most 500 ms";
            return self.health.failed(message.to_owned()).into_iter().collect();
        };
        if reply.facts.is_some() {
            self.facts = reply.facts;
        }
        match reply.reading {
            Ok(Reading { at_ns, values }) => {
                let at_ns = match clock {
                    Clock::System => at_ns,
                    Clock::Manual(_) => clock.monotonic_ns(),
                };
                let backwards = status.view.advance(at_ns, &values);
                let scope = sample.scope(&self.scope);
                for (_, family) in families() {
                    status.view.put(family, scope);
                }
                self.health.succeeded(backwards).collect()
            }
            Err(message) => self.health.failed(message).into_iter().collect(),
        }
    }

    /// Answers that came after their sample was written.
    pub fn status_late(&self) -> u64 {
        self.status.as_ref().map_or(0, |status| status.reader.late)
    }
}
