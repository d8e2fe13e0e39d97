//! The hot path allocates nothing per operation: a counting allocator, and runs of different length.

mod common;

use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use common::NullServer;
use dyno_allocations::{of_the_process, CountingAllocator};
use dyno_core::distribution::{Distribution, Parameters};
use dyno_load::sql::oltp::{self, Context, OltpOptions};
use dyno_load::sql::{SqlSession, SqlSettings, SqlWorkload};
use dyno_loop::{Address, Interval, LoadSettings, LoadShape, Observer};
use dyno_mysql::{Endpoint, Options};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct Nobody;

impl<E> Observer<E> for Nobody {
    fn interval(&mut self, _: &Interval<'_, E>) -> std::io::Result<()> {
        Ok(())
    }
}

/// Allocations and transactions of one run.
fn measure(server: &NullServer, name: &str, prepared: bool, duration_ns: u64) -> (u64, u64) {
    let mut options = OltpOptions::default();
    options.table.tables = 2;
    let address: std::net::SocketAddr = server.place.parse().unwrap();
    let endpoint = Endpoint::tcp("127.0.0.1", address.port());
    let shape = LoadShape {
        threads: 1,
        connections: 8,
        warmup_ns: 0,
        duration_ns,
        grace_ns: 1_000_000_000,
        interval_ns: 10_000_000_000,
        schedule: None,
        catch_up: None,
        slowest: 10,
        has_terminals: false,
    };
    let settings = Arc::new(SqlSettings {
        load: LoadSettings::new(shape, endpoint.to_string(), Address::Tcp(address)),
        options: Arc::new(Options::new(endpoint, "null")),
        workload: SqlWorkload::Oltp(Context {
            definition: oltp::named(name).unwrap().define(&options),
            options,
            distribution: Distribution::named("special", &Parameters::default()).unwrap(),
            seed: 1,
            connections: 8,
        }),
        prepared,
        acknowledged: None,
    });
    let before = of_the_process();
    let outcome = dyno_loop::run::<SqlSession>(&settings, &AtomicBool::new(false), &mut |_| (), &mut Nobody).unwrap();
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
        // A busy neighbour can make the longer run the smaller one: lengthen it until it is clearly larger. Buffers and the
        // end of a run differ by dozens, whatever its length.
        let (long, many) = (0..5)
            .map(|round| measure(&server, name, prepared, 1_000_000_000 << round))
            .find(|(_, many)| *many > few + few.max(2_000))
            .unwrap_or_else(|| panic!("{name}: no run had many more than the {few} transactions of the short one"));
        let per_transaction = long.saturating_sub(short) as f64 / (many - few) as f64;
        // Warm-up of buffers and the end of the run differ by a few; one a statement would be 20 a transaction.
        assert!(
            per_transaction < 0.05,
            "{name} prepared={prepared}: {per_transaction} allocations a transaction"
        );
    }
}
