//! `dynoload calibrate`: the cost of this program on this host and path, against the null server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use dyno_core::distribution::{Distribution, Parameters};
use dyno_loop::{Address, LoadSettings, LoadShape, Totals};
use dyno_mysql::{Endpoint, Options};
use serde_json::json;

use crate::error::{Error, Exit};
use crate::output::json::FORMAT;
use crate::parse::{connections, measurable_duration, threads};
use crate::slices::NoObserver;
use crate::sql::oltp::{self, Context, OltpOptions, Workload};
use crate::sql::{SqlRecord, SqlSession, SqlSettings, SqlWorkload};

const EXAMPLES: &str = "Examples:
  dynoload calibrate
      Floor latency (1 connection), most operations a second and CPU a query over TCP loopback.
  dynoload calibrate --unix --workload oltp_read_only --connections 256
      The same over a Unix socket, with 14 statements and 2 x 100 rows a transaction.

No latency that this host measures can be below the floor; no throughput above the most.";

/// What to measure.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Calibration {
    /// Workload to run against the null server
    #[arg(long, default_value = "oltp_point_select")]
    pub workload: String,
    /// Connections of the throughput measurement
    #[arg(long, default_value = "64", value_parser = connections)]
    pub connections: u32,
    /// Worker threads
    #[arg(long, default_value = "1", value_parser = threads)]
    pub threads: u32,
    /// Length of each of the two measurements
    #[arg(long, default_value = "3s", value_parser = measurable_duration)]
    pub duration: Duration,
    /// Use a Unix socket instead of TCP loopback
    #[arg(long)]
    pub unix: bool,
    /// Print the result as one JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// The null server in a separate process, so that its CPU time is not counted as ours; ends with this value.
struct NullServer {
    child: Child,
    address: Address,
    endpoint: Endpoint,
}

impl Drop for NullServer {
    fn drop(&mut self) {
        let id = nix::unistd::Pid::from_raw(self.child.id() as i32);
        // It may have ended already; on SIGTERM it removes its socket.
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
                .map_or("it printed nothing".to_string(), |error| error.to_string());
            return Err(Error::Host(format!("the null server did not start: {reason}")));
        }
        if unix {
            return Ok(server);
        }
        let address: std::net::SocketAddr = place
            .parse()
            .map_err(|_| Error::Host(format!("the null server listens on '{place}', which is not an address")))?;
        let mut server = server;
        server.endpoint = Endpoint::tcp(address.ip().to_string(), address.port());
        server.address = Address::Tcp(address);
        Ok(server)
    }
}

/// Measures twice and prints.
///
/// # Errors
/// When the null server does not start, or a run fails.
pub fn run(arguments: &Calibration) -> Result<Exit, Error> {
    let workload = oltp::named(&arguments.workload).map_err(Error::User)?;
    crate::host::allow_open_files(u64::from(arguments.connections) + 64)?;
    let server = NullServer::start(arguments.unix)?;
    let floor = measure(arguments, &workload, &server, 1)?;
    let most = measure(arguments, &workload, &server, arguments.connections)?;
    let path = if arguments.unix { "Unix socket" } else { "TCP loopback" };
    let seconds = arguments.duration.as_secs_f64();
    let per_query = |totals: &Totals<SqlRecord>| {
        totals.measured.usage.cpu_us() as f64 / (totals.measured.counts.queries().max(1)) as f64
    };
    let mut out = dyno_core::streams::stdout();
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
        "  lowest latency, 1 connection   p50 {:.1} µs, p99 {:.1} µs per transaction",
        at(50.0),
        at(99.0)
    )?;
    writeln!(
        out,
        "  highest rate, {} connections, {} threads  {:.0} queries/s at {:.2} µs CPU per query ({:.0} % of a CPU)",
        arguments.connections,
        arguments.threads,
        most.measured.counts.queries() as f64 / seconds,
        per_query(&most),
        most.busiest_worker_cpu_pct
    )?;
    Ok(Exit::Done)
}

fn measure(
    arguments: &Calibration,
    workload: &Workload,
    server: &NullServer,
    connections: u32,
) -> Result<Totals<SqlRecord>, Error> {
    let oltp = OltpOptions::default();
    let nanoseconds = |value: Duration| value.as_nanos() as u64;
    let shape = LoadShape {
        threads: arguments.threads.min(connections),
        connections,
        warmup_ns: nanoseconds(arguments.duration) / 5,
        duration_ns: nanoseconds(arguments.duration),
        grace_ns: 1_000_000_000,
        interval_ns: 1_000_000_000,
        schedule: None,
        catch_up: None,
        slowest: 0,
        has_terminals: false,
    };
    let settings = Arc::new(SqlSettings {
        load: LoadSettings::new(shape, server.endpoint.to_string(), server.address.clone()),
        options: Arc::new(Options::new(server.endpoint.clone(), "null")),
        workload: SqlWorkload::Oltp(Context {
            definition: workload.define(&oltp),
            options: oltp,
            distribution: Distribution::named("uniform", &Parameters::default()).map_err(Error::User)?,
            seed: 1,
            connections,
        }),
        prepared: true,
        acknowledged: None,
    });
    let interrupted = AtomicBool::new(false);
    let outcome = dyno_loop::run::<SqlSession>(&settings, &interrupted, &mut |_| (), &mut NoObserver)?;
    match (outcome.failure, outcome.totals) {
        (None, Some(totals)) => Ok(totals),
        (failure, _) => Err(Error::Host(format!(
            "the calibration failed: {}",
            failure.map_or_else(|| "no load was started".into(), |failure| failure.message)
        ))),
    }
}
