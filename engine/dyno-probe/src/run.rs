//! One run: header, samples at their times, commands in between, footer.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use crate::arguments::Arguments;
use crate::clock::Clock;
use crate::collector::Moment;
use crate::families::{probe::own_cpu_us, ALL};
use crate::machine::{Machine, Process, Role, ELSEWHERE};
use crate::record::{
    Availability, DriverFacts, DriverRecord, Event, Footer, Header, Mark, SampleRecord, SpeedRecord, Time,
    FORMAT_VERSION,
};
use crate::roster::{Health, Notice, Roster};
use crate::sample::Sample;
use crate::server::WatchedServer;
use crate::speed::{SpeedMeter, Totals};
use crate::waiter::{Command, Schedule, Waiter, Wake};
use dyno_core::wire::{Format, LineWriter};

const FORMAT: Format = Format {
    format: "dynoprobe",
    format_version: FORMAT_VERSION,
    program: "dynoprobe",
    version: env!("CARGO_PKG_VERSION"),
};

/// How long a sample waits for a server's answer when there is no interval.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest that a sample waits for a server's answer: half its interval, at most this.
const PATIENCE_MAX: Duration = Duration::from_millis(500);

/// Why a run could not be, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The caller's mistake.
    #[error("{0}")]
    Usage(String),
    /// The output cannot be written, or the system refuses.
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

struct Run {
    clock: Clock,
    machine: Machine,
    roster: Roster,
    servers: Vec<WatchedServer>,
    ended_servers: Vec<Health>,
    ended_status_late: u64,
    until_instances_end: bool,
    schedule: Schedule,
    sample: Sample,
    buffer: Vec<u8>,
    output: LineWriter<Box<dyn Write>>,
    samples: u64,
}

/// Samples until something ends it.
///
/// # Errors
/// [`RunError::Usage`] for a wrong argument, [`RunError::Io`] when the output fails.
pub fn run(arguments: Arguments) -> Result<(), RunError> {
    let mut waiter = Waiter::new().map_err(|error| RunError::Io("waiting for signals".into(), error))?;
    let mut machine = arguments.machine().map_err(RunError::Usage)?;
    if arguments.speed_meter {
        machine.speed_meter = SpeedMeter::start().map_err(|error| format!("the speed meter does not start: {error}"));
    }
    let once = arguments.once;
    let target = arguments.output.clone();
    let io = |error| RunError::Io(format!("writing {target}"), error);
    let mut run = Run::start(arguments, machine).map_err(io)?;
    let reason = if once {
        run.once(&mut waiter)
    } else {
        run.repeat(&mut waiter)
    }
    .map_err(io)?;
    run.finish(&reason).map_err(io)
}

impl Run {
    fn start(arguments: Arguments, machine: Machine) -> io::Result<Self> {
        let clock = if arguments.interval_ms == 0 {
            Clock::Manual(Cell::new(0))
        } else {
            Clock::System
        };
        let mut roster = Roster::default();
        let mut families = roster.add_host(&machine);
        let mut servers: Vec<WatchedServer> = Vec::new();
        let mut instances = Vec::new();
        for instance in arguments.instances {
            if instance.process.pid != ELSEWHERE {
                families.extend(roster.add_process(&machine, &instance.process));
            }
            servers.push(WatchedServer::new(instance));
        }
        for server in &mut servers {
            let (facts, availability) = server.first_answer();
            instances.push(facts);
            families.extend(availability);
        }
        for driver in &arguments.drivers {
            families.extend(roster.add_process(&machine, driver));
        }
        families.extend(unwatched(&families));
        let header = Header {
            interval_ms: arguments.interval_ms,
            clock: clock.name(),
            time: time(&clock),
            instances,
            drivers: arguments
                .drivers
                .iter()
                .map(|driver| DriverFacts {
                    id: driver.id.clone(),
                    pid: driver.pid,
                })
                .collect(),
            disks: machine.disks.iter().flatten().map(|disk| disk.name.clone()).collect(),
            families,
        };
        let writer: Box<dyn Write> = match arguments.output.as_str() {
            "-" => Box::new(io::stdout()),
            path => Box::new(File::create(path)?),
        };
        let output = LineWriter::start(writer, FORMAT, &header)?;
        let schedule = Schedule::new(clock.monotonic_ns(), arguments.interval_ms.saturating_mul(1_000_000));
        Ok(Self {
            clock,
            machine,
            roster,
            servers,
            ended_servers: Vec::new(),
            ended_status_late: 0,
            until_instances_end: arguments.until_instances_end,
            schedule,
            sample: Sample::default(),
            buffer: Vec::new(),
            output,
            samples: 0,
        })
    }

    /// Samples at their times until an end; gives its reason.
    fn repeat(&mut self, waiter: &mut Waiter) -> io::Result<String> {
        loop {
            let wait_ns = self.schedule.wait_ns(self.clock.monotonic_ns());
            if wait_ns == Some(0) {
                self.take_sample()?;
            } else {
                match waiter.wait(wait_ns.map(Duration::from_nanos))? {
                    Wake::Time => {}
                    Wake::End(reason) => return Ok(reason),
                    Wake::Command(Ok(Command::Stop)) => return Ok("stop".into()),
                    Wake::Command(command) => self.command(command)?,
                }
            }
            if self.until_instances_end && self.servers.is_empty() {
                return Ok("all instances have ended".into());
            }
        }
    }

    /// One reading for the counters' beginning, one interval, one sample.
    fn once(&mut self, waiter: &mut Waiter) -> io::Result<String> {
        let time = time(&self.clock);
        self.read();
        self.schedule.begin(time.monotonic_ns);
        while let Some(wait_ns) = self
            .schedule
            .wait_ns(self.clock.monotonic_ns())
            .filter(|wait_ns| *wait_ns > 0)
        {
            if let Wake::End(reason) = waiter.wait(Some(Duration::from_nanos(wait_ns)))? {
                return Ok(reason);
            }
        }
        self.take_sample()?;
        Ok("once".into())
    }

    fn take_sample(&mut self) -> io::Result<()> {
        let time = time(&self.clock);
        let late_us = self.schedule.begin(time.monotonic_ns);
        let notices = self.read();
        self.samples += 1;
        self.output.record(
            "sample",
            &SampleRecord {
                time,
                late_us,
                metrics: &self.sample,
            },
        )?;
        for notice in notices {
            let Notice {
                kind,
                family,
                scope,
                message,
            } = &notice;
            self.output.record(
                kind,
                &Event {
                    time,
                    family,
                    scope,
                    message,
                },
            )?;
        }
        self.forget_ended_servers();
        Ok(())
    }

    /// Fills the sample. Servers are asked first and answer while the rest is read.
    fn read(&mut self) -> Vec<Notice> {
        self.sample.clear();
        for server in &mut self.servers {
            server.ask();
        }
        let asked_ns = Clock::System.monotonic_ns();
        let mut moment = Moment {
            clock: &self.clock,
            buffer: &mut self.buffer,
            backwards: 0,
        };
        let mut notices = self.roster.collect(&mut moment, &mut self.sample);
        let patience = self
            .schedule
            .half_interval_ns()
            .map_or(PATIENCE, |half| Duration::from_nanos(half).min(PATIENCE_MAX));
        for server in &mut self.servers {
            let waited = Duration::from_nanos(Clock::System.monotonic_ns().saturating_sub(asked_ns));
            let of_server = server.collect(&self.clock, patience.saturating_sub(waited), &mut self.sample);
            let gone = notices
                .iter()
                .any(|notice| notice.kind == "gone" && notice.scope == server.process.scope());
            // That a server does not answer once it has ended is no failure of its own.
            if !gone {
                notices.extend(of_server);
            }
        }
        notices
    }

    fn forget_ended_servers(&mut self) {
        let roster = &self.roster;
        let (kept, ended) = self
            .servers
            .drain(..)
            .partition(|server| server.process.pid == ELSEWHERE || roster.watches(&server.process.scope()));
        self.servers = kept;
        let ended: Vec<WatchedServer> = ended;
        for server in ended {
            self.ended_status_late += server.status_late();
            self.ended_servers.push(server.health);
        }
    }

    fn command(&mut self, command: Result<Command, String>) -> io::Result<()> {
        let time = time(&self.clock);
        match command {
            Ok(Command::Driver { id, pid }) => {
                let mut driver = Process {
                    role: Role::Driver,
                    id,
                    pid: 0,
                };
                self.roster.remove(&driver.scope());
                let mut families = Vec::new();
                if let Some(pid) = pid {
                    driver.pid = pid;
                    families = self.roster.add_process(&self.machine, &driver);
                }
                self.output.record(
                    "driver",
                    &DriverRecord {
                        time,
                        id: &driver.id,
                        pid,
                        families,
                    },
                )
            }
            Ok(Command::Mark(text)) => self.output.record("mark", &Mark { time, text: &text }),
            Ok(Command::Speed(id)) => match &self.machine.speed_meter {
                Ok(meter) => {
                    let Totals { units, cpu_ns } = meter.totals();
                    let id = &id;
                    self.output.record(
                        "speed",
                        &SpeedRecord {
                            time,
                            id,
                            units,
                            cpu_ns,
                        },
                    )
                }
                Err(reason) => {
                    let message = format!("'speed': {reason}");
                    self.refuse(&message)
                }
            },
            Ok(Command::Sample(now)) => match &self.clock {
                Clock::Manual(clock) => {
                    clock.set(now.unwrap_or_else(|| Clock::System.monotonic_ns()));
                    self.take_sample()
                }
                Clock::System => self.refuse("'sample' needs --interval-ms 0"),
            },
            Ok(Command::Stop) => Ok(()),
            Err(message) => self.refuse(&message),
        }
    }

    fn refuse(&mut self, message: &str) -> io::Result<()> {
        let time = time(&self.clock);
        self.output.record(
            "error",
            &Event {
                time,
                family: "control",
                scope: "input",
                message,
            },
        )
    }

    fn finish(mut self, reason: &str) -> io::Result<()> {
        let own = own_cpu_us();
        let health = || {
            self.roster
                .health()
                .chain(&self.ended_servers)
                .chain(self.servers.iter().map(|server| &server.health))
        };
        let footer = Footer {
            time: time(&self.clock),
            reason,
            samples: self.samples,
            late: self.schedule.late,
            missed: self.schedule.missed,
            late_max_us: self.schedule.late_max_us,
            status_late: self.ended_status_late + self.servers.iter().map(WatchedServer::status_late).sum::<u64>(),
            resets: health().map(|health| health.resets).sum(),
            failures: health().filter_map(Health::count).collect(),
            probe_cpu_user_us: own.map(|[user, _]| user),
            probe_cpu_system_us: own.map(|[_, system]| system),
        };
        self.output.record("footer", &footer)
    }
}

fn time(clock: &Clock) -> Time {
    Time {
        unix_ns: clock.unix_ns(),
        monotonic_ns: clock.monotonic_ns(),
    }
}

/// Families for which there is nothing to read: no server, no process was named.
fn unwatched(known: &[Availability]) -> Vec<Availability> {
    let unknown = ALL
        .iter()
        .filter(|family| known.iter().all(|availability| availability.name != family.name));
    unknown
        .map(|family| Availability {
            name: family.name,
            scope: None,
            available: false,
            reason: Some("nothing of that kind was named (--instance, --driver)".into()),
        })
        .collect()
}
