//! `dynoload oltp run`: check, load, measure, judge, print.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use clap::Args;
use dyno_mysql::blocking::Client;
use serde::{Deserialize, Serialize};

use super::agent::{self, AgentArguments};
use super::connection::ConnectionArguments;
use super::oltp_options::{TableArguments, TransactionArguments};
use super::run_settings::{self, LoadArguments, RandomArguments};
use super::slices::SliceArguments;
use crate::agents::{AgentFacts, Coordinator};
use crate::error::{Error, Exit};
use crate::output::json::{self, Description, Final};
use crate::output::progress::Progress;
use crate::output::table;
use crate::report::{Paths, Sinks};
use crate::run::{self, Outcome, Settings};
use crate::server::{self, CounterCheck, Facts, Needs, ServerCounters};
use crate::slices::{Input, SqlTarget};
use crate::verdict::{self, Evidence, Finding, TcpSegments, Verdict};
use crate::workload::{self, Workload};

const EXAMPLES: &str = "Examples:
  dynoload oltp run --workload oltp_read_only --connections 64 --duration 60s
      As fast as 64 connections go (closed loop), like sysbench --threads=64.
  dynoload oltp run --workload oltp_read_write --connections 64 --rate 500 --arrivals poisson --warmup 10s
      500 transactions a second come whether or not the server keeps up; response time counts from when each was due.
  dynoload oltp run --workload oltp_point_select --connections 10000 --rate 2000 --json result.json --hdr result.hlog
      Many mostly idle connections; the result as JSON lines and as an HDR log.
  dynoload oltp run --workload oltp_read_only --host db1 --connections 512 \
      --agent 'ssh -o BatchMode=yes load1 dynoload agent' --agent 'ssh -o BatchMode=yes load2 dynoload agent'
      Two hosts load db1, 256 connections each; this one coordinates them and writes one result.
  dynoload oltp run --workload oltp_read_only --connections 64 --slices --server-pid 1234
      Connects and holds; the line `go a 7 500 3000` on standard input runs 0.5 s of washout and 3 s that are counted.

The password comes from --password-file or DYNO_PASSWORD. The table is on stdout, progress on stderr.
Exit codes: 0 VALID or SUSPECT, 1 failed, 2 wrong input, 3 cannot be done here, 4 INVALID, 130 interrupted.";

/// The options of `oltp run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArguments {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    agents: AgentArguments,
    #[command(flatten)]
    slices: SliceArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// What is asked of whom, for how long: the same for the host that starts the run and for its agents.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct Asked {
    /// What to ask; `dynoload oltp list` shows all
    #[arg(long)]
    workload: String,
    #[command(flatten)]
    pub(super) load: LoadArguments,
    #[command(flatten)]
    pub(super) connection: ConnectionArguments,
    #[command(flatten)]
    tables: TableArguments,
    #[command(flatten)]
    transaction: TransactionArguments,
    #[command(flatten)]
    random: RandomArguments,
}

impl Asked {
    /// The workload of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn workload(&self) -> Result<Workload, Error> {
        workload::named(&self.workload).map_err(Error::User)
    }

    /// The settings, and the words for the result.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    pub fn resolve(&self) -> Result<(Settings, Description), Error> {
        let oltp = self.transaction.resolve(&self.tables)?;
        run_settings::resolve(&self.workload()?, oltp, &self.connection, &self.load, &self.random)
    }
}

/// Where results go.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArguments {
    /// Result as JSON lines to a file, or - for stdout (the table then goes to stderr)
    #[arg(long)]
    pub(super) json: Option<PathBuf>,
    /// Histograms of every interval as an HDR log, format V2
    #[arg(long)]
    pub(super) hdr: Option<PathBuf>,
    /// Counters and latencies as OpenMetrics text, renewed every interval; a name that ends in .prom, in the folder that
    /// the Prometheus node exporter reads (--collector.textfile.directory), puts the load beside the server's metrics
    #[arg(long)]
    pub(super) openmetrics: Option<PathBuf>,
    /// No progress
    #[arg(long)]
    pub(super) quiet: bool,
    /// Try a server that is neither MySQL nor MariaDB
    #[arg(long)]
    pub any_server: bool,
}

impl OutputArguments {
    /// Where results go.
    pub(super) fn paths(&self) -> Paths<'_> {
        Paths {
            json: self.json.as_deref(),
            hdr: self.hdr.as_deref(),
            openmetrics: self.openmetrics.as_deref(),
        }
    }
}

/// Runs it.
pub fn run(arguments: &RunArguments) -> Result<Exit, Error> {
    let asked = &arguments.asked;
    let (mut settings, description) = asked.resolve()?;
    crate::host::take_priority(settings.priority);
    let mut control = server::connect(&settings.options)?;
    let facts = server::check(
        &mut control,
        &Needs {
            context: &settings.context,
            prepared: settings.prepared,
            single_table: asked.workload()?.single_table,
            any_server: arguments.output.any_server,
        },
    )?;
    if arguments.slices.slices {
        let shown = json::settings(&settings, &description);
        let input = Input::open()?;
        return arguments
            .slices
            .run(&mut SqlTarget::new(settings, control), shown, &facts, &input);
    }
    let any_server = arguments.output.any_server;
    let interrupted = crate::host::interruption()?;
    let team = agent::engage(
        &arguments.agents,
        &mut settings,
        agent::Asked::Oltp(asked.clone()),
        any_server,
        &interrupted,
    )?;
    let shown = json::settings(&settings, &description);
    measure(
        &Arc::new(settings),
        shown,
        &facts,
        control,
        team,
        &interrupted,
        &arguments.output,
    )
}

/// Runs the load, judges it, and writes every output.
pub fn measure(
    settings: &Arc<Settings>,
    mut shown: serde_json::Value,
    facts: &Facts,
    mut control: Client,
    team: Option<Coordinator>,
    interrupted: &AtomicBool,
    output: &OutputArguments,
) -> Result<Exit, Error> {
    match (&team, shown.as_object_mut()) {
        // Each agent has a priority of its own.
        (Some(_), Some(shown)) => {
            shown.remove("priority");
            shown.remove("niceness");
        }
        _ => crate::host::allow_open_files(u64::from(settings.context.connections) + 64)?,
    }
    let progress = Progress::new(output.quiet);
    progress.say(&format!(
        "{} on {} {} at {}: {} connections, {} threads{}",
        settings.context.definition.name,
        facts.kind,
        facts.version,
        settings.options.endpoint,
        settings.context.connections,
        settings.threads,
        team.as_ref()
            .map_or_else(String::new, |team| format!(" of {} agents", team.count()))
    ));
    let mut sinks = Sinks::start(&output.paths(), progress, &shown, facts)?;
    let mut before = None;
    let tcp_before = crate::host::tcp_segments();
    let mut read_counters = || before = ServerCounters::read(&mut control).ok();
    let (outcome, agents) = match team {
        None => (
            run::run(settings, interrupted, &mut read_counters, &mut sinks)?,
            Vec::new(),
        ),
        Some(team) => team.run(settings, &mut read_counters, &mut sinks)?,
    };
    sinks.progress().finish();
    let counters = reconcile(before.as_ref(), &mut control, settings, &outcome);
    // The kernel's counts are of this host, and the load of an agent is not on it.
    let tcp = (agents.is_empty() && matches!(settings.address, run::socket::Address::Tcp(_)))
        .then(|| crate::host::tcp_segments().zip(tcp_before))
        .flatten()
        .map(|(after, before)| TcpSegments {
            sent: after.sent.saturating_sub(before.sent),
            retransmitted: after.retransmitted.saturating_sub(before.retransmitted),
        });
    let duration_s = measured_s(settings, &outcome, interrupted);
    let (verdict, findings) = judge(settings, &outcome, &counters, &agents, tcp, duration_s);
    let result = Final {
        settings: &shown,
        server: facts,
        outcome: &outcome,
        agents: &agents,
        counters: &counters,
        verdict,
        findings: &findings,
        duration_s,
    };
    sinks.finish(&json::final_record(&result))?;
    print_table(&table::render(&result), output.json.as_deref())?;
    Ok(exit_of(&outcome, verdict))
}

fn measured_s(settings: &Settings, outcome: &Outcome, interrupted: &AtomicBool) -> f64 {
    let planned_s = settings.duration_ns as f64 / 1e9;
    let ended_early = outcome.failure.is_some() || interrupted.load(Ordering::Relaxed);
    match outcome.timeline {
        Some(timeline) if ended_early => {
            let now = dyno_core::clock::now_ns();
            (now.saturating_sub(timeline.measure_ns) as f64 / 1e9).clamp(1e-3, planned_s)
        }
        _ => planned_s,
    }
}

fn reconcile(
    before: Option<&ServerCounters>,
    control: &mut Client,
    settings: &Settings,
    outcome: &Outcome,
) -> Vec<CounterCheck> {
    let (Some(before), Some(totals)) = (before, &outcome.totals) else {
        return Vec::new();
    };
    // A server that left transactions without an end may hang: asking it would delay the end of the run.
    if outcome.failure.is_some() || outcome.end.unfinished > 0 || settings.is_churn() {
        return Vec::new();
    }
    // A server that is gone after the load has no counters: the comparison is absent then, not zero.
    let Ok(after) = ServerCounters::read(control) else {
        return Vec::new();
    };
    let cut_off = if outcome.interrupted {
        outcome.end.in_flight_at_stop
    } else {
        0
    };
    let connections = u64::from(settings.context.connections);
    after.reconcile(before, totals, totals.all.ignored_errors + cut_off, connections)
}

fn judge(
    settings: &Settings,
    outcome: &Outcome,
    counters: &[CounterCheck],
    agents: &[AgentFacts],
    tcp: Option<TcpSegments>,
    duration_s: f64,
) -> (Verdict, Vec<Finding>) {
    let Some(totals) = &outcome.totals else {
        let reason = "no load was started".to_string();
        return (
            Verdict::Invalid,
            vec![Finding {
                rule: "empty",
                level: Verdict::Invalid,
                reason,
            }],
        );
    };
    verdict::judge(&Evidence {
        totals,
        end: outcome.end,
        duration_s,
        failure: outcome.failure.as_ref(),
        threads: settings.threads,
        open_loop: settings.pace().is_timed(),
        counters,
        agents,
        tcp,
        asked_hit_share: None,
    })
}

pub(super) fn print_table(text: &str, json: Option<&Path>) -> Result<(), Error> {
    if json == Some(Path::new("-")) {
        eprint!("{text}");
        return Ok(());
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

pub(super) fn exit_of(outcome: &Outcome, verdict: Verdict) -> Exit {
    if outcome.interrupted {
        return Exit::Interrupted;
    }
    if let Some(failure) = &outcome.failure {
        eprintln!("dynoload: {failure}");
        return Exit::Failed;
    }
    match verdict {
        Verdict::Invalid => Exit::Invalid,
        _ => Exit::Done,
    }
}
