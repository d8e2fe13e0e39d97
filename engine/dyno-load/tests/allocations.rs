//! The hot path allocates nothing per operation: a counting allocator, and runs of different length.

mod common;

use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use common::NullServer;
use dyno_allocations::{of_the_process, CountingAllocator};
use dyno_core::distribution::{Distribution, Parameters};
use dyno_load::run::{self, socket, IgnoredErrors, Interval, Observer, Overload, Priority, Settings, Think};
use dyno_load::workload::{self, Context, OltpOptions};
use dyno_mysql::{Endpoint, Options};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct Nobody;

impl Observer for Nobody {
    fn interval(&mut self, _: &Interval<'_>) -> std::io::Result<()> {
        Ok(())
    }
}

/// Allocations and transactions of one run.
fn measure(server: &NullServer, name: &str, prepared: bool, duration_ns: u64) -> (u64, u64) {
    let oltp = OltpOptions {
        tables: 2,
        ..OltpOptions::default()
    };
    let address: std::net::SocketAddr = server.place.parse().unwrap();
    let endpoint = Endpoint::tcp("127.0.0.1", address.port());
    let settings = Arc::new(Settings {
        address: socket::Address::Tcp(address),
        options: Arc::new(Options::new(endpoint, "null")),
        acknowledged: None,
        context: Context {
            tpcc: None,
            definition: (workload::named(name).unwrap().define)(&oltp),
            options: oltp,
            distribution: Distribution::named("special", &Parameters::default()).unwrap(),
            seed: 1,
            connections: 8,
        },
        prepared,
        threads: 1,
        warmup_ns: 0,
        duration_ns,
        grace_ns: 1_000_000_000,
        interval_ns: 10_000_000_000,
        plan: None,
        catch_up: None,
        overload: Overload::Queue,
        think: Think::No,
        ignored_errors: IgnoredErrors::Codes(Vec::new()),
        slowest: 10,
        priority: Priority::Normal,
        spin: false,
        connect_timeout_ns: 10_000_000_000,
    });
    let before = of_the_process();
    let outcome = run::run(&settings, &AtomicBool::new(false), &mut || (), &mut Nobody).unwrap();
    assert_eq!(outcome.failure, None);
    let transactions = outcome.totals.unwrap().all.transactions;
    (of_the_process() - before, transactions)
}

#[test]
fn no_operation_allocates() {
    let server = NullServer::start();
    for (name, prepared) in [
        ("oltp_read_write", true),
        ("oltp_read_write", false),
        ("oltp_point_select", true),
    ] {
        let (short, few) = measure(&server, name, prepared, 300_000_000);
        // A busy neighbour can make the longer run the smaller one: lengthen it until it is clearly larger.
        let (long, many) = (0..5)
            .map(|round| measure(&server, name, prepared, 1_000_000_000 << round))
            .find(|(_, many)| *many > few * 2)
            .unwrap_or_else(|| panic!("{name}: no run had twice the {few} transactions of the short one"));
        let per_transaction = long.saturating_sub(short) as f64 / (many - few) as f64;
        // Warm-up of buffers and the end of the run differ by a few; one a statement would be 20 a transaction.
        assert!(
            per_transaction < 0.05,
            "{name} prepared={prepared}: {per_transaction} allocations a transaction"
        );
    }
}
