//! `dynoload statements`: each statement of a capture on several servers, within milliseconds, again and again.
//!
//! First each is executed once on every server for what needs no repetition (once.rs); then statements are visited until
//! the time is over (pairs.rs). Servers are loaded one at a time, so that what is compared is a statement alone on its
//! server. What writes is executed in a transaction that is rolled back.

mod chosen;
mod lane;
mod once;
mod pairs;

pub use chosen::{Choice, Chosen, LeftOut};
pub use lane::{LaneSpec, StatementsRun};

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use dyno_capture::{digest_label, Transactions, Wanted};
use dyno_core::clock::now_ns;
use dyno_core::random::RandomStream;
use dyno_core::wire::{Format, LineWriter};
use serde_json::json;

use self::lane::{share_cpu, Lane};
use self::pairs::Visits;
use crate::error::{Error, Exit};
use crate::output::check_apart;
use crate::replay::unique_keys;
use crate::sql::captured::set_names;

const FORMAT: Format = Format {
    format: "dynoload-statements",
    format_version: 1,
    program: "dynoload",
    version: env!("CARGO_PKG_VERSION"),
};
/// Characters of a digest that name it in a table.
const LABEL_LENGTH: usize = 60;
/// Texts of each statement of which plan and counters are read.
const EXPLAINED_TEXTS: usize = 2;
/// Further texts of a statement that took so long on all servers together are not executed.
const LONGEST_ONCE_NS: u64 = 1_000_000_000;
/// Statements whose execution is explained at the end.
const MOST_EXPLAINED: usize = 20;
const TOO_LATE: &str = "the time was too short to execute it";
/// ROLLBACK could not take back what was changed in tables without transactions.
const NOT_ROLLED_BACK: &str = "its tables have no transactions: what it changes cannot be rolled back";

/// Compares.
///
/// # Errors
/// When the capture or a server will not do, or a server is lost.
pub fn run(run: &StatementsRun) -> Result<Exit, Error> {
    check_apart(
        &[("CAPTURE", run.capture.as_path())],
        &[("--json", Some(run.json.as_path()))],
    )?;
    let capture = crate::capture::read(&run.capture)?;
    let mut choice = Choice::of(&capture, run.most as usize, run.texts as usize);
    if run.read_only {
        choice.leave_out_writes();
    }
    check(run, &choice)?;
    let wanted = Wanted {
        read_only: run.read_only,
        of_the_session: false,
    };
    let has_one = "a comparison has one: capture the sessions of one of them";
    let set_names = set_names(&Transactions::of(capture, wanted), &run.capture, Some(has_one)).map_err(Error::User)?;
    let interrupted = crate::host::interruption()?;
    let of_lane = pairs::connections(&run.servers.iter().map(LaneSpec::place).collect::<Vec<_>>());
    let mut connections = of_lane
        .iter()
        .map(|lane| Lane::connect(&run.servers[*lane], run.longest, set_names.as_ref()))
        .collect::<Result<Vec<_>, _>>()?;
    let lanes = &connections[..run.servers.len()];
    let output: Box<dyn Write> = if run.json == Path::new("-") {
        Box::new(dyno_core::streams::stdout())
    } else {
        Box::new(BufWriter::new(File::create(&run.json).map_err(|error| {
            Error::User(format!("--json '{}' cannot be written: {error}", run.json.display()))
        })?))
    };
    let servers: Vec<_> = lanes
        .iter()
        .map(|lane| json!({ "name": lane.name, "facts": lane.facts }))
        .collect();
    let header = json!({
        "servers": servers,
        "statements": choice.chosen.len(),
        "left_out": choice.left_out,
        "shared_cpu": share_cpu(&connections),
    });
    let mut comparison = Comparison {
        lines: LineWriter::start(output, FORMAT, &header)?,
        visits: vec![Visits::default(); choice.chosen.len()],
        chosen: choice.chosen,
        lanes: run.servers.len(),
        of_lane,
        connections: &mut connections,
        interrupted: &interrupted,
    };
    let begin_ns = now_ns();
    let duration_ns = run.duration.as_nanos() as u64;
    comparison.once(&run.servers, begin_ns + duration_ns / 2)?;
    let repeat_ns = now_ns();
    comparison.repeat((begin_ns + duration_ns).max(repeat_ns + duration_ns / 2), run.seed)?;
    comparison.explain_slower()?;
    let seconds = |from: u64, to: u64| (to - from) as f64 / 1e9;
    let end = json!({
        "once_s": seconds(begin_ns, repeat_ns),
        "repeat_s": seconds(repeat_ns, now_ns()),
        "interrupted": interrupted.load(Ordering::Relaxed),
    });
    comparison.lines.record("end", &end)?;
    comparison.lines.into_inner().flush()?;
    Ok(if interrupted.load(Ordering::Relaxed) {
        Exit::Interrupted
    } else {
        Exit::Done
    })
}

fn check(run: &StatementsRun, choice: &Choice) -> Result<(), Error> {
    let file = run.capture.display();
    if run.servers.len() < 2 {
        return Err(Error::User(
            "--server is needed at least twice: statements are compared between servers".into(),
        ));
    }
    let names: BTreeSet<&str> = run.servers.iter().map(|server| server.name.as_str()).collect();
    if names.len() < run.servers.len() {
        return Err(Error::User("--server: two servers have the same name".into()));
    }
    if choice.schemas.len() > 1 {
        let schemas: Vec<&str> = choice.schemas.iter().map(String::as_str).collect();
        return Err(Error::User(format!(
            "'{file}' has statements of {} default schemas ({}), and a comparison has one: capture one with --schema",
            schemas.len(),
            schemas.join(", ")
        )));
    }
    if choice.chosen.is_empty() {
        let reasons: Vec<String> = choice
            .left_out
            .iter()
            .map(|(reason, one)| format!("{} {reason}", one.statements))
            .collect();
        return Err(Error::User(format!(
            "'{file}' has no statement to compare: {}",
            reasons.join("; ")
        )));
    }
    Ok(())
}

/// Means over the executions of a visit, by server.
struct Visit {
    service_ns: Vec<f64>,
    /// None where a server's thread is unknown.
    cpu_ns: Option<Vec<f64>>,
}

struct Comparison<'a> {
    chosen: Vec<Chosen>,
    /// How many; each has one of the first connections.
    lanes: usize,
    connections: &'a mut [Lane],
    /// The lane of each connection.
    of_lane: Vec<usize>,
    visits: Vec<Visits>,
    lines: LineWriter<Box<dyn Write>>,
    interrupted: &'a AtomicBool,
}

impl Comparison<'_> {
    /// Every statement once on each server, the rarest only as long as there is time.
    fn once(&mut self, specs: &[LaneSpec], until_ns: u64) -> Result<(), Error> {
        let schema = specs[0].connection.database.clone();
        let keys = unique_keys(&mut self.connections[0].client, &[schema].into())?;
        for index in 0..self.chosen.len() {
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            let one = self.chosen[index].clone();
            let writes = one.writes;
            let record = json!({
                "statement": index,
                "digest": one.fingerprint,
                "label": digest_label(&one.digest, LABEL_LENGTH),
                "text": one.digest,
                "count": one.count,
                "writes": writes,
                "examples": one.texts.iter().map(|text| String::from_utf8_lossy(text)).collect::<Vec<_>>(),
            });
            self.lines.record("statement", &record)?;
            let begin_ns = now_ns();
            if begin_ns > until_ns {
                self.leave_out(index, TOO_LATE)?;
                continue;
            }
            let mut not_repeated = self.not_rolled_back(&one)?;
            for (number, text) in one.texts.iter().enumerate() {
                if number > 0 && now_ns() - begin_ns > LONGEST_ONCE_NS {
                    break;
                }
                let is_whole = number < EXPLAINED_TEXTS;
                let found = self.connections[..self.lanes]
                    .iter_mut()
                    .map(|lane| lane.once(text, writes, &keys, is_whole))
                    .collect::<Result<Vec<_>, _>>()?;
                if not_repeated.is_empty() && found.iter().any(|once| once.error != 0) {
                    not_repeated = "it fails".into();
                }
                let record = json!({ "statement": index, "text": number, "servers": found });
                self.lines.record("once", &record)?;
            }
            if !not_repeated.is_empty() {
                self.leave_out(index, &not_repeated)?;
            }
        }
        Ok(())
    }

    /// States why a statement is not repeated, or no more.
    fn leave_out(&mut self, index: usize, reason: &str) -> Result<(), Error> {
        self.visits[index].is_left_out = true;
        let record = json!({ "statement": index, "reason": reason });
        Ok(self.lines.record("not_repeated", &record)?)
    }

    /// How each server executed those statements that another one than the first is slower at, as far as it states it.
    fn explain_slower(&mut self) -> Result<(), Error> {
        for index in pairs::slower(&self.visits, MOST_EXPLAINED) {
            let (text, writes) = (self.chosen[index].texts[0].clone(), self.chosen[index].writes);
            let found = self.connections[..self.lanes]
                .iter_mut()
                .map(|lane| lane.explain_execution(&text, writes))
                .collect::<Result<Vec<_>, _>>()?;
            let record = json!({ "statement": index, "servers": found });
            self.lines.record("executed", &record)?;
        }
        Ok(())
    }

    /// Why a statement that writes cannot be repeated: it is tried once, and rolled back.
    fn not_rolled_back(&mut self, one: &Chosen) -> Result<String, Error> {
        let Some(text) = one.texts.first().filter(|_| one.writes) else {
            return Ok(String::new());
        };
        let mut warned = false;
        for lane in &mut self.connections[..self.lanes] {
            lane.done("BEGIN")?;
            lane.execute(text)?;
            let rolled_back = lane.client.exec("ROLLBACK").map_err(|error| lane.lost(&error))?;
            warned |= rolled_back.warnings > 0;
        }
        Ok(if warned { NOT_ROLLED_BACK.into() } else { String::new() })
    }

    /// Visits until the time is over.
    fn repeat(&mut self, end_ns: u64, seed: u64) -> Result<(), Error> {
        let mut random = pairs::random(seed);
        while !self.interrupted.load(Ordering::Relaxed) {
            let left_ns = end_ns.saturating_sub(now_ns());
            if left_ns == 0 {
                break;
            }
            let left_of_lanes_ns = left_ns as f64 * self.lanes as f64 / self.of_lane.len() as f64;
            let Some(index) = pairs::next(&self.visits, self.lanes, left_of_lanes_ns) else {
                break;
            };
            let executions = self.visits[index].executions(self.lanes);
            let Some(visit) = self.visit(index, executions, &mut random)? else {
                self.leave_out(index, "it failed when it was repeated")?;
                continue;
            };
            self.visits[index].add(&visit.service_ns);
            let record = json!({
                "statement": index,
                "executions": executions,
                "service_us": micros(&visit.service_ns),
                "cpu_us": visit.cpu_ns.as_deref().map(micros),
            });
            self.lines.record("visit", &record)?;
        }
        Ok(())
    }

    /// So many executions on each server: the mean time and CPU time of each, ns. None where one failed.
    fn visit(&mut self, index: usize, executions: u64, random: &mut RandomStream) -> Result<Option<Visit>, Error> {
        let one = &self.chosen[index];
        let (mut service, mut cpu) = (vec![0.0; self.lanes], vec![Some(0.0); self.lanes]);
        let before: Vec<Option<u64>> = self.connections.iter().map(Lane::idle_cpu_ns).collect();
        for _ in 0..executions {
            let text = &one.texts[(random.next_u64() % one.texts.len() as u64) as usize];
            for connection in pairs::order(self.of_lane.len(), random) {
                let place = self.of_lane[connection];
                let lane = &mut self.connections[connection];
                let in_transaction = one.writes.then(|| {
                    lane.done("BEGIN")?;
                    Ok::<_, Error>(lane.idle_cpu_ns())
                });
                let cpu_before = in_transaction.transpose()?;
                let (reply, service_ns) = lane.execute(text)?;
                service[place] += service_ns as f64;
                if let Some(before) = cpu_before {
                    let after = lane.idle_cpu_ns();
                    cpu[place] = add(cpu[place], before, after);
                    lane.done("ROLLBACK")?;
                }
                if reply.error.is_some() {
                    return Ok(None);
                }
            }
        }
        if !one.writes {
            for ((lane, before), place) in self.connections.iter().zip(before).zip(&self.of_lane) {
                cpu[*place] = add(cpu[*place], before, lane.idle_cpu_ns());
            }
        }
        let mean = |(place, sum): (usize, f64)| {
            let connections = self.of_lane.iter().filter(|lane| **lane == place).count() as u64;
            sum / (executions * connections) as f64
        };
        let cpu: Option<Vec<f64>> = cpu.into_iter().collect();
        Ok(Some(Visit {
            service_ns: service.into_iter().enumerate().map(mean).collect(),
            cpu_ns: cpu.map(|cpu| cpu.into_iter().enumerate().map(mean).collect()),
        }))
    }
}

fn add(sum: Option<f64>, before: Option<u64>, after: Option<u64>) -> Option<f64> {
    Some(sum? + after?.saturating_sub(before?) as f64)
}

fn micros(ns: &[f64]) -> Vec<f64> {
    ns.iter().map(|one| (one / 10.0).round() / 100.0).collect()
}
