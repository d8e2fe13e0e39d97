//! The collectors at work, and how each of them is doing: a failure is recorded once when it begins and once when it
//! ends.

use crate::collector::{Collector, Failure, Family, Moment, Opened, Subject};
use crate::families::ALL;
use crate::machine::{Machine, Process};
use crate::record::{Availability, FailureCount};
use crate::sample::Sample;

/// What is to be recorded after a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Name of the record: `error`, `recovered`, `gone`, `reset`.
    pub kind: &'static str,
    /// The family.
    pub family: String,
    /// For what it is read.
    pub scope: String,
    /// What happened.
    pub message: String,
}

/// How one family does for one scope.
#[derive(Debug, Default)]
pub struct Health {
    family: String,
    scope: String,
    failing: bool,
    samples: u64,
    message: String,
    /// Counters that went backwards.
    pub resets: u64,
}

impl Health {
    /// Health of a family for a scope, good to begin with.
    pub fn new(family: &str, scope: &str) -> Self {
        Self {
            family: family.to_owned(),
            scope: scope.to_owned(),
            ..Self::default()
        }
    }

    fn notice(&self, kind: &'static str, message: String) -> Notice {
        Notice {
            kind,
            family: self.family.clone(),
            scope: self.scope.clone(),
            message,
        }
    }

    /// Counts a failed reading; a notice when the one before did not fail.
    pub fn failed(&mut self, message: String) -> Option<Notice> {
        self.samples += 1;
        self.message.clone_from(&message);
        let begins = !std::mem::replace(&mut self.failing, true);
        begins.then(|| self.notice("error", message))
    }

    /// Notes a good reading and how many counters went backwards in it.
    pub fn succeeded(&mut self, backwards: u32) -> impl Iterator<Item = Notice> {
        self.resets += u64::from(backwards);
        let recovered = std::mem::replace(&mut self.failing, false)
            .then(|| self.notice("recovered", format!("after {} samples without", self.samples)));
        let reset = (backwards > 0).then(|| {
            self.notice(
                "reset",
                format!("{backwards} counters went backwards; their rates are absent"),
            )
        });
        recovered.into_iter().chain(reset)
    }

    /// For the footer; nothing when it never failed.
    pub fn count(&self) -> Option<FailureCount> {
        (self.samples > 0).then(|| FailureCount {
            family: self.family.clone(),
            scope: self.scope.clone(),
            samples: self.samples,
            message: self.message.clone(),
        })
    }
}

struct Active {
    collector: Box<dyn Collector>,
    health: Health,
}

/// All collectors for the host and for processes.
#[derive(Default)]
pub struct Roster {
    active: Vec<Active>,
    ended: Vec<Health>,
}

/// The family whose reading tells whether a process is still there.
const LIFE_SIGN: &str = "process_cpu";

impl Roster {
    /// Begins with the host's families.
    pub fn add_host(&mut self, machine: &Machine) -> Vec<Availability> {
        self.add("host", |family| match family.subject {
            Subject::Host(open) => Some(open(machine)),
            _ => None,
        })
    }

    /// Adds a process' families.
    pub fn add_process(&mut self, machine: &Machine, process: &Process) -> Vec<Availability> {
        self.add(&process.scope(), |family| match family.subject {
            Subject::Process(open) => Some(open(machine, process)),
            _ => None,
        })
    }

    fn add(&mut self, scope: &str, open: impl Fn(&Family) -> Option<Opened>) -> Vec<Availability> {
        let mut availability = Vec::new();
        for family in ALL {
            let Some(opened) = open(family) else { continue };
            let reason = opened.as_ref().err().map(ToString::to_string);
            availability.push(Availability {
                name: family.name,
                scope: Some(scope.to_owned()),
                available: reason.is_none(),
                reason,
            });
            if let Ok(collector) = opened {
                self.active.push(Active {
                    collector,
                    health: Health::new(family.name, scope),
                });
            }
        }
        availability
    }

    /// Stops reading for that scope.
    pub fn remove(&mut self, scope: &str) {
        let (removed, kept) = self.active.drain(..).partition(|active| active.health.scope == scope);
        self.active = kept;
        let removed: Vec<Active> = removed;
        self.ended.extend(removed.into_iter().map(|active| active.health));
    }

    /// Whether something is read for that scope.
    pub fn watches(&self, scope: &str) -> bool {
        self.active.iter().any(|active| active.health.scope == scope)
    }

    /// Reads all once. Gives what is to be recorded; a process that has ended is removed, with a notice `gone`.
    pub fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Vec<Notice> {
        let mut notices: Vec<Notice> = Vec::new();
        let mut gone: Vec<String> = Vec::new();
        for active in &mut self.active {
            let health = &mut active.health;
            if gone.contains(&health.scope) {
                continue;
            }
            moment.backwards = 0;
            match active.collector.collect(moment, sample) {
                Ok(()) => notices.extend(health.succeeded(moment.backwards)),
                Err(Failure::Gone(message)) if health.family == LIFE_SIGN => {
                    gone.push(health.scope.clone());
                    notices.push(health.notice("gone", message));
                }
                Err(failure) => notices.extend(health.failed(failure.to_string())),
            }
        }
        for scope in gone {
            self.remove(&scope);
        }
        notices
    }

    /// How all that were ever read did.
    pub fn health(&self) -> impl Iterator<Item = &Health> {
        self.ended.iter().chain(self.active.iter().map(|active| &active.health))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_when_it_begins_and_when_it_ends() {
        let mut health = Health::new("disk", "host");
        assert_eq!(health.failed("x".into()).unwrap().kind, "error");
        assert!(health.failed("y".into()).is_none());
        let kinds: Vec<_> = health.succeeded(0).map(|notice| notice.kind).collect();
        assert_eq!(kinds, ["recovered"]);
        assert_eq!(health.succeeded(0).count(), 0);
        let count = health.count().unwrap();
        assert_eq!((count.samples, count.message.as_str()), (2, "y"));
    }

    #[test]
    fn each_reset_is_told_and_counted() {
        let mut health = Health::new("network", "host");
        assert_eq!(
            health.succeeded(3).map(|notice| notice.kind).collect::<Vec<_>>(),
            ["reset"]
        );
        assert_eq!((health.resets, health.count().is_none()), (3, true));
    }
}
