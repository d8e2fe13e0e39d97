//! The hot path of the key-value workload allocates nothing per operation: a counting allocator, and runs of different
//! length against a real memcached (DYNO_TEST_MEMCACHED).

mod common;
#[path = "common/memcached.rs"]
mod memcached;

use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use dyno_allocations::{of_the_process, CountingAllocator};
use dyno_kv::Protocol;
use dyno_load::kv::keys::{Choice, Keys};
use dyno_load::kv::sizes::{Sizes, Values};
use dyno_load::kv::{Endpoint, KvSession, KvSettings, Mix, Shares, Workload};
use dyno_loop::{Address, Interval, LoadSettings, LoadShape, Observer};
use memcached::Memcached;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct Nobody;

impl<E> Observer<E> for Nobody {
    fn interval(&mut self, _: &Interval<'_, E>) -> std::io::Result<()> {
        Ok(())
    }
}

/// Allocations and operations of one run.
fn measure(server: &Memcached, choice: &str, (protocol, depth): (Protocol, u32), duration_ns: u64) -> (u64, u64) {
    let keys = Keys::new(1000, Choice::parse(choice, 1000).unwrap(), "", Sizes::Fixed(40)).unwrap();
    let mix = Mix {
        set: 0.3,
        multi_get: 0.1,
        cas: 0.1,
        incr: 0.1,
        delete: 0.1,
    };
    let shares = Shares {
        mix,
        verify: 0.5,
        absent: if choice == "latest" { 0.0 } else { 0.1 },
    };
    let mut workload = Workload::new(keys, Values::new(Sizes::Uniform(10, 2000)), shares, 1).unwrap();
    workload.multi_get_keys = 5;
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
    let endpoint = Endpoint::Tcp("127.0.0.1".into(), server.port);
    let address = Address::Tcp(([127, 0, 0, 1], server.port).into());
    let settings = Arc::new(KvSettings {
        name: "kv".into(),
        protocol,
        load: LoadSettings::new(shape, endpoint.to_string(), address),
        endpoint,
        depth,
        workload,
    });
    let before = of_the_process();
    let outcome = dyno_loop::run::<KvSession>(&settings, &AtomicBool::new(false), &mut |_| (), &mut Nobody).unwrap();
    assert_eq!(outcome.failure, None);
    let operations = outcome.totals.unwrap().all.transactions;
    (of_the_process() - before, operations)
}

#[test]
fn no_operation_allocates() {
    let Some(server) = Memcached::start("kv_allocations: no_operation_allocates", &[]) else {
        return;
    };
    for (choice, protocol, depth) in [
        ("uniform", Protocol::Text, 1),
        ("uniform", Protocol::Binary, 1),
        ("uniform", Protocol::Meta, 8),
        ("latest", Protocol::Text, 1),
    ] {
        let (short, few) = measure(&server, choice, (protocol, depth), 300_000_000);
        // Warm-up of buffers and the end of a run differ by a few: only many more operations show that none allocates.
        let (long, many) = (0..5)
            .map(|round| measure(&server, choice, (protocol, depth), 1_300_000_000 << round))
            .find(|(_, many)| *many > few + 10_000)
            .unwrap_or_else(|| panic!("{choice}: no run had many more than the {few} operations of the short one"));
        let per_operation = long.saturating_sub(short) as f64 / (many - few) as f64;
        assert!(
            per_operation < 0.02,
            "{choice} {}: {per_operation} allocations an operation",
            protocol.name()
        );
    }
}
