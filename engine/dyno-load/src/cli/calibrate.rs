//! `dynoload calibrate`: what this program costs on this host and path, against the null server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use dyno_core::distribution::{Distribution, Parameters};
use dyno_mysql::{Endpoint, Options};
use serde_json::json;

use super::parse::{count, positive_duration};
use crate::error::{Error, Exit};
use crate::output::json::FORMAT;
use crate::run::socket::Address;
use crate::run::{self, IgnoredErrors, Interval, Observer, Overload, Priority, Settings, Think, Totals};
use crate::workload::{self, Context, OltpOptions};

const EXAMPLES: &str = "Examples:
  dynoload calibrate
      Floor latency (1 connection), most operations a second and CPU a query over TCP loopback.
  dynoload calibrate --unix --workload oltp_read_only --connections 256
      The same over a Unix socket, with 14 statements and 2 x 100 rows a transaction.

No latency that this host measures can be below the floor; no throughput above the most.";

/// The options of `calibrate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CalibrateArguments {
    /// Workload to ask of the null server
    #[arg(long, default_value = "oltp_point_select")]
    workload: String,
    /// Connections for the most operations a second
    #[arg(long, default_value = "64", value_parser = count)]
    connections: u32,
    /// Worker threads
    #[arg(long, default_value = "1", value_parser = count)]
    threads: u32,
    /// Length of each of the two measurements
    #[arg(long, default_value = "3s", value_parser = positive_duration)]
    duration: Duration,
    /// Over a Unix socket instead of TCP loopback
    #[arg(long)]
    unix: bool,
    /// The result as one JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// The null server in a process of its own, so that its CPU is not counted as ours; ends with this value.
struct NullServer {
    child: Child,
    address: Address,
    endpoint: Endpoint,
}

impl Drop for NullServer {
    fn drop(&mut self) {
        let id = nix::unistd::Pid::from_raw(self.child.id() as i32);
        // It may have ended by itself; it removes its socket when it is asked to end.
        let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

impl NullServer {
    fn start(unix: bool) -> Result<Self, Error> {
        let failed = |what: &str, error: std::io::Error| Error::Host(format!("the null server: {what}: {error}"));
        let program = std::env::current_exe().map_err(|error| failed("finding this program", error))?;
        let mut command = Command::new(program);
        command.arg("null").stdout(Stdio::piped()).stdin(Stdio::null());
        if unix {
            let path: PathBuf = std::env::temp_dir().join(format!("dynoload-null-{}.sock", std::process::id()));
            command.arg("--socket").arg(path);
        }
        let mut child = command.spawn().map_err(|error| failed("starting", error))?;
        let mut line = String::new();
        let read = child
            .stdout
            .take()
            .map(|stdout| BufReader::new(stdout).read_line(&mut line));
        let place = line.trim().to_string();
        let server = Self {
            child,
            address: Address::Unix(place.clone().into()),
            endpoint: Endpoint::unix(&place),
        };
        if place.is_empty() {
            let reason = read
                .and_then(Result::err)
                .map_or("it said nothing".to_string(), |error| error.to_string());
            return Err(Error::Host(format!("the null server did not start: {reason}")));
        }
        if unix {
            return Ok(server);
        }
        let address: std::net::SocketAddr = place
            .parse()
            .map_err(|_| Error::Host(format!("the null server listens on '{place}', no address")))?;
        let mut server = server;
        server.endpoint = Endpoint::tcp(address.ip().to_string(), address.port());
        server.address = Address::Tcp(address);
        Ok(server)
    }
}

struct Nobody;

impl Observer for Nobody {
    fn interval(&mut self, _: &Interval<'_>) -> std::io::Result<()> {
        Ok(())
    }
}

/// Measures twice and prints.
pub fn run(arguments: &CalibrateArguments) -> Result<Exit, Error> {
    let workload = workload::named(&arguments.workload).map_err(Error::User)?;
    crate::host::allow_open_files(u64::from(arguments.connections) + 64)?;
    let server = NullServer::start(arguments.unix)?;
    let floor = measure(arguments, &workload, &server, 1)?;
    let most = measure(arguments, &workload, &server, arguments.connections)?;
    let path = if arguments.unix { "Unix socket" } else { "TCP loopback" };
    let seconds = arguments.duration.as_secs_f64();
    let per_query =
        |totals: &Totals| totals.measured.usage.cpu_us() as f64 / (totals.measured.counts.queries().max(1)) as f64;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let record = json!({
            "format": FORMAT.format,
            "format_version": FORMAT.format_version,
            "program": FORMAT.program,
            "version": FORMAT.version,
            "record": "calibration",
            "workload": workload.name,
            "path": path,
            "connections": arguments.connections,
            "threads": arguments.threads,
            "floor": floor.measured.service.summary(),
            "most_queries_per_s": most.measured.counts.queries() as f64 / seconds,
            "cpu_us_per_query": per_query(&most),
            "cpu_us_per_query_one_connection": per_query(&floor),
            "busiest_worker_pct": most.busiest_worker_cpu_pct,
        });
        writeln!(out, "{record}")?;
        return Ok(Exit::Done);
    }
    let at = |percentile| floor.measured.service.percentile_ns(percentile) as f64 / 1e3;
    writeln!(out, "{} over {path}, null server in its own process", workload.name)?;
    writeln!(
        out,
        "  floor latency, 1 connection   p50 {:.1} µs, p99 {:.1} µs a transaction",
        at(50.0),
        at(99.0)
    )?;
    writeln!(
        out,
        "  most, {} connections, {} threads  {:.0} queries/s at {:.2} µs CPU a query ({:.0} % of a CPU)",
        arguments.connections,
        arguments.threads,
        most.measured.counts.queries() as f64 / seconds,
        per_query(&most),
        most.busiest_worker_cpu_pct
    )?;
    Ok(Exit::Done)
}

fn measure(
    arguments: &CalibrateArguments,
    workload: &workload::Workload,
    server: &NullServer,
    connections: u32,
) -> Result<Totals, Error> {
    let oltp = OltpOptions::default();
    let nanoseconds = |value: Duration| value.as_nanos() as u64;
    let settings = Arc::new(Settings {
        address: server.address.clone(),
        options: Arc::new(Options::new(server.endpoint.clone(), "null")),
        acknowledged: None,
        context: Context {
            tpcc: None,
            definition: (workload.define)(&oltp),
            options: oltp,
            distribution: Distribution::named("uniform", &Parameters::default()).map_err(Error::User)?,
            seed: 1,
            connections,
        },
        prepared: true,
        threads: arguments.threads.min(connections),
        warmup_ns: nanoseconds(arguments.duration) / 5,
        duration_ns: nanoseconds(arguments.duration),
        grace_ns: 1_000_000_000,
        interval_ns: 1_000_000_000,
        plan: None,
        catch_up: None,
        overload: Overload::Queue,
        think: Think::No,
        ignored_errors: IgnoredErrors::Codes(Vec::new()),
        slowest: 0,
        priority: Priority::Normal,
        spin: false,
        connect_timeout_ns: 30_000_000_000,
    });
    let outcome = run::run(&settings, &AtomicBool::new(false), &mut || (), &mut Nobody)?;
    match (outcome.failure, outcome.totals) {
        (None, Some(totals)) => Ok(totals),
        (failure, _) => Err(Error::Host(format!(
            "the calibration failed: {}",
            failure.map_or_else(|| "no load was started".into(), |failure| failure.message)
        ))),
    }
}
