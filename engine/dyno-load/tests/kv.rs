//! The key-value workload against a real memcached: counts, values, hits, presets.
//!
//! DYNO_TEST_MEMCACHED is a memcached program; each test starts its own with it.

mod common;
#[path = "common/memcached.rs"]
mod memcached;

use std::time::Duration;

use common::{assert_sound, plain, run, Run};
use dyno_kv::blocking::Client;
use dyno_kv::{Arithmetic, Detail, Event, Item, Protocol, Status, Store};
use memcached::Memcached;

fn kv(result: &Run, name: &str) -> u64 {
    result.count(&format!("/kv/whole_load_counts/{name}"))
}

/// The server's counters are ours to the last operation; those under way at the hard stop aside, and there are none.
fn assert_reconciled(result: &Run, what: &str) {
    let checks = result.last()["reconciliation"].as_array().unwrap();
    let names: Vec<_> = checks.iter().map(|check| check["counter"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"cmd_set") || names.contains(&"cmd_get"),
        "{what}: {}",
        result.stderr
    );
    for check in checks {
        assert_eq!(check["server"], check["client"], "{what}: {check}");
    }
}

#[test]
fn every_protocol_and_transport_counts_what_the_server_counts() {
    let test = "every_protocol_and_transport_counts_what_the_server_counts";
    let (Some(tcp), Some(unix)) = (Memcached::start(test, &[]), Memcached::start_unix(test)) else {
        return;
    };
    for (server, protocol, depth) in [
        (&tcp, "text", 1),
        (&tcp, "binary", 1),
        (&tcp, "meta", 1),
        (&tcp, "text", 7),
        (&tcp, "binary", 7),
        (&tcp, "meta", 7),
        (&unix, "text", 1),
        (&unix, "binary", 3),
    ] {
        let what = format!("{} {protocol} depth {depth}", server.place());
        let result = run(&format!(
            "kv run {} --protocol {protocol} --depth {depth} --connections 6 --threads 2 --keys 500 --fill 100% --cas 10% \
             --incr 5% --delete 1% --multi-get 10% --multi-get-keys 5 --value-size uniform:0-3000 --verify 100% \
             --operations 6000 --quiet",
            server.place()
        ));
        assert_sound(&result, &what);
        assert_reconciled(&result, &what);
        for count in ["cmd_get", "cmd_set", "get_hits", "incr_hits", "delete_hits"] {
            assert!(kv(&result, count) > 0, "{what}: no {count}");
        }
        let found = result.count("/kv/counts/get_hits");
        // Of a reply that the window's end cuts, the first values are looked at inside, and all are hits behind it.
        let cut = 6 * depth * 5;
        let verified = result.count("/kv/counts/verified");
        assert!(verified.abs_diff(found) <= cut, "{what}: {verified} of {found}");
        assert_eq!(kv(&result, "wrong_values"), 0, "{what}");
        assert_eq!(kv(&result, "not_stored"), 0, "{what}");
        // Set, get, and every other command have latencies of their own.
        let commands = result.last()["kv"]["commands"].as_object().unwrap();
        for command in ["get", "multi_get", "set", "gets", "cas", "incr", "delete"] {
            assert!(commands.contains_key(command), "{what}: no {command}");
        }
    }
}

#[test]
fn the_workloads_of_ycsb_have_their_shares_and_find_right_values() {
    let Some(server) = Memcached::start("the_workloads_of_ycsb_have_their_shares_and_find_right_values", &[]) else {
        return;
    };
    // Shares of set and of cas in all operations.
    for (letter, set, cas) in [
        ("a", 0.5, 0.0),
        ("b", 0.05, 0.0),
        ("c", 0.0, 0.0),
        ("d", 0.05, 0.0),
        ("f", 0.0, 0.5),
    ] {
        for protocol in ["text", "binary", "meta"] {
            let what = format!("{letter} {protocol}");
            let result = run(&format!(
                "kv run {} --ycsb {letter} --protocol {protocol} --keys 500 --fill 100% --connections 4 --verify 100% \
                 --operations 3000 --quiet",
                server.place()
            ));
            assert_sound(&result, &what);
            assert_reconciled(&result, &what);
            assert_eq!(
                result.last()["settings"]["words"]["preset"],
                format!("ycsb_{letter}"),
                "{what}"
            );
            let operations = result.count("/whole_load_counts/transactions") as f64;
            assert!(operations > 1000.0, "{what}: {operations} operations");
            let share = |count: u64| count as f64 / operations;
            let cas_seen = kv(&result, "cas");
            assert!((share(cas_seen) - cas).abs() < 0.05, "{what}: {}", share(cas_seen));
            let set_seen = kv(&result, "cmd_set") - cas_seen;
            assert!((share(set_seen) - set).abs() < 0.05, "{what}: {}", share(set_seen));
            assert!(kv(&result, "verified") > 100, "{what}");
            assert_eq!(kv(&result, "wrong_values"), 0, "{what}");
            // Of d, a key whose set is not answered yet can be asked for; all else was stored before.
            let missed = share(kv(&result, "get_misses"));
            assert!(missed <= if letter == "d" { 0.01 } else { 0.0 }, "{what}: {missed}");
        }
    }
    for (options, words) in [
        ("--ycsb e", "memcached's protocol has no command for that"),
        ("--ycsb x", "use a, b, c, d or f"),
        ("--ycsb a --ratio 1:1", "cannot be used with"),
        ("--ycsb d --hit-ratio 90%", "remove --hit-ratio"),
        ("--ycsb d --connections 2 --agent true", "which key is the newest"),
    ] {
        let result = plain(&format!("kv run {} {options} --duration 100ms --quiet", server.place()));
        assert_eq!(result.code, 2, "{options}: {}", result.stderr);
        assert!(result.stderr.contains(words), "{options}: {}", result.stderr);
    }
}

#[test]
fn every_set_of_the_latest_makes_a_key_of_its_own() {
    let Some(server) = Memcached::start("every_set_of_the_latest_makes_a_key_of_its_own", &[]) else {
        return;
    };
    let result = run(&format!(
        "kv run {} --ycsb d --keys 100 --key-size 12 --fill 100% --connections 4 --depth 4 --verify 100% \
         --operations 40000 --quiet",
        server.place()
    ));
    assert_sound(&result, "latest");
    // About 2,000 new keys, after the 100 that were stored: their numbers have more digits.
    let mut client = Client::tcp(("127.0.0.1", server.port), Protocol::Text, Duration::from_secs(10)).unwrap();
    let items = client
        .stats("")
        .unwrap()
        .into_iter()
        .find(|(name, _)| name == "curr_items");
    let items: u64 = items.unwrap().1.parse().unwrap();
    let sets = kv(&result, "cmd_set");
    assert_eq!(items, 100 + sets, "every set makes a key of its own");
    assert!((1700..2300).contains(&sets), "{sets}");
}

#[test]
fn sets_without_a_reply_are_done_and_counted() {
    let Some(server) = Memcached::start("sets_without_a_reply_are_done_and_counted", &[]) else {
        return;
    };
    for protocol in ["text", "binary", "meta"] {
        for load in [
            "--ratio 50:50 --operations 900",
            "--ratio 0:1 --operations 900",
            "--ratio 0:1 --rate 3000 --duration 1s",
        ] {
            let result = run(&format!(
                "kv run {} --protocol {protocol} {load} --noreply --connections 3 --keys 500 --fill 100% --quiet",
                server.place()
            ));
            assert_sound(&result, &format!("{protocol} {load}"));
            assert!(kv(&result, "cmd_set") > 100, "{protocol} {load}");
            assert_reconciled(&result, &format!("{protocol} {load}"));
        }
    }
}

#[test]
fn wrong_values_are_found_and_make_the_run_invalid() {
    let Some(server) = Memcached::start("wrong_values_are_found_and_make_the_run_invalid", &[]) else {
        return;
    };
    let data = "--keys 100 --value-size 200 --key-size 30";
    let made = plain(&format!("kv prepare {} {data} --quiet", server.place()));
    // A busy host may make so short a load invalid; whether every value is there is seen below.
    assert!(made.code == 0 || made.code == 4, "{}", made.stderr);
    // On a busy host a short load may read less than once from each key: then the next one is longer.
    let read_all = || {
        (0..6)
            .map(|round| {
                run(&format!(
                    "kv run {} {data} --ratio 1:0 --duration {}ms --quiet --verify 100%",
                    server.place(),
                    200 << round
                ))
            })
            .find(|result| kv(result, "verified") >= 2_000)
            .expect("no load read 2,000 values")
    };
    let right = read_all();
    assert_sound(&right, "right values");
    assert_eq!(kv(&right, "wrong_values"), 0);
    // Another program stores a value of the right length under one key.
    let keys = dyno_load::kv::keys::Keys::new(
        100,
        dyno_load::kv::keys::Choice::Uniform,
        "",
        dyno_load::kv::sizes::Sizes::Fixed(30),
    )
    .unwrap();
    let mut key = Vec::new();
    keys.write(42, &mut key);
    let mut client = Client::tcp(("127.0.0.1", server.port), Protocol::Text, Duration::from_secs(10)).unwrap();
    let item = Item {
        key: &key,
        flags: 0,
        ttl_s: 0,
        value: &[b'x'; 200],
    };
    client
        .exchange(|connection| connection.store(Store::Replace, &item, false), |_| {})
        .unwrap();
    let wrong = read_all();
    assert_eq!(wrong.code, 4, "{}", wrong.stderr);
    let share = kv(&wrong, "wrong_values") as f64 / kv(&wrong, "verified") as f64;
    assert!(
        (0.002..0.05).contains(&share),
        "one key of 100 is wrong, {share} of the values"
    );
    assert!(wrong.last()["verdict"].to_string().contains("wrong_values"));
}

#[test]
fn hits_are_as_asked_and_misses_are_counted_truly() {
    let Some(server) = Memcached::start("hits_are_as_asked_and_misses_are_counted_truly", &[]) else {
        return;
    };
    for choice in ["uniform", "zipfian:0.99", "hotspot:10%:90%", "sequential"] {
        let result = run(&format!(
            "kv run {} --keys 2000 --fill 100% --hit-ratio 80% --key-choice {choice} --connections 4 --duration 500ms \
             --quiet",
            server.place()
        ));
        assert_sound(&result, choice);
        assert_reconciled(&result, choice);
        assert!(
            (result.number("/kv/hit_ratio") - 0.8).abs() < 0.05,
            "{choice}: {}",
            result.number("/kv/hit_ratio")
        );
    }
    let half = run(&format!(
        "kv run {} --keys 2000 --key-prefix half: --fill 50% --ratio 1:0 --connections 4 --duration 500ms --quiet",
        server.place()
    ));
    assert!(
        (half.number("/kv/hit_ratio") - 0.5).abs() < 0.05,
        "{}",
        half.number("/kv/hit_ratio")
    );
    // Nothing is stored; the keys have another length; all are expired, for above 30 days the time is one of 1970. Only a
    // word of the user's allows it.
    plain(&format!(
        "kv prepare {} --keys 2000 --key-prefix brief: --ttl 2592001 --quiet",
        server.place()
    ));
    for keys in [
        "--key-prefix cold:",
        "--key-prefix half: --key-size 80",
        "--key-prefix brief:",
    ] {
        let cold = |more: &str| {
            run(&format!(
                "kv run {} --keys 2000 {keys} --ratio 1:0 {more} --duration 200ms --quiet",
                server.place()
            ))
        };
        let judged = cold("");
        assert_eq!(judged.code, 4, "{keys}: {}", judged.stderr);
        assert_eq!(judged.count("/kv/counts/get_hits"), 0, "{keys}");
        assert!(judged.last()["verdict"].to_string().contains("hit_ratio"), "{keys}");
        let allowed = cold("--hit-ratio any");
        let findings = allowed.last()["verdict"]["findings"].as_array().unwrap();
        let of_hits = findings.iter().find(|finding| finding["rule"] == "hit_ratio").unwrap();
        assert_eq!(of_hits["level"], "VALID", "{keys}: {of_hits}");
    }
}

#[test]
fn the_preset_memslap_sets_then_gets_every_key_once() {
    let Some(server) = Memcached::start("the_preset_memslap_sets_then_gets_every_key_once", &[]) else {
        return;
    };
    let result = run(&format!(
        "kv run {} --preset memslap --connections 8 --execute-number 300 --quiet",
        server.place()
    ));
    assert_sound(&result, "memslap");
    let set = &result.last()["parts"][0];
    assert_eq!(set["workload"], "memslap_set");
    assert_eq!(set["kv"]["counts"]["cmd_set"], 2400);
    assert_eq!(set["kv"]["counts"]["cmd_get"], 0);
    assert_eq!(result.count("/kv/counts/cmd_get"), 2400);
    assert_eq!(result.count("/kv/counts/get_hits"), 2400);
    assert_eq!(result.count("/kv/counts/cmd_set"), 0);
    for total in [
        set["kv"]["total_time_s"].as_f64().unwrap(),
        result.number("/kv/total_time_s"),
    ] {
        assert!((0.001..30.0).contains(&total), "{total}");
    }
    assert_reconciled(&result, "memslap");
    let stats = plain(&format!("kv stats {} --json", server.place()));
    let stats: serde_json::Value = serde_json::from_str(&stats.stdout).unwrap();
    assert_eq!(
        (&stats["curr_items"], &stats["cmd_set"]),
        (&"2400".into(), &"2400".into())
    );
}

#[test]
fn the_preset_memaslap_gives_the_figures_that_memaslap_prints() {
    let Some(server) = Memcached::start("the_preset_memaslap_gives_the_figures_that_memaslap_prints", &[]) else {
        return;
    };
    let result = run(&format!(
        "kv run {} --preset memaslap --connections 4 --overwrite 0.2 --window 100 --duration 1s --quiet",
        server.place()
    ));
    assert_sound(&result, "memaslap");
    let (gets, sets) = (result.count("/kv/counts/cmd_get"), result.count("/kv/counts/cmd_set"));
    assert!(
        sets > 50 && ((sets as f64 / (gets + sets) as f64) - 0.1).abs() < 0.03,
        "{gets} and {sets}"
    );
    assert_eq!(result.count("/kv/counts/get_misses"), 0);
    assert_eq!(result.count("/kv/counts/object_bytes"), sets * (64 + 1024));
    let total = &result.last()["kv"]["distributions"]["total"];
    let figure = |name: &str| total[name].as_f64().unwrap();
    assert!(figure("min_us") <= figure("geometric_mean_us") && figure("geometric_mean_us") <= figure("mean_us"));
    assert!(figure("mean_us") < figure("max_us") && figure("std_us") > 0.0);
    let classes = total["log2"].as_array().unwrap();
    let sum: u64 = classes.iter().map(|class| class["count"].as_u64().unwrap()).sum();
    assert_eq!(sum, gets + sets);
    assert!(result.number("/kv/net_mib_per_s") > 0.0);
    // New keys are four fifths of the sets.
    let stats = plain(&format!("kv stats {} --json", server.place()));
    let stats: serde_json::Value = serde_json::from_str(&stats.stdout).unwrap();
    let items: f64 = stats["curr_items"].as_str().unwrap().parse().unwrap();
    let all_sets = kv(&result, "cmd_set") as f64;
    assert!((items / all_sets - 0.8).abs() < 0.1, "{items} items of {all_sets} sets");
}

#[test]
fn a_load_that_leaves_connections_idle_for_longer_than_the_server_allows_is_refused() {
    let test = "a_load_that_leaves_connections_idle_for_longer_than_the_server_allows_is_refused";
    let Some(server) = Memcached::start(test, &["-o", "idle_timeout=5"]) else {
        return;
    };
    for (load, idle) in [
        ("--rate 1 --connections 16", "up to 16.0 s"),
        ("--think-time 8s", "up to 8.0 s"),
        ("--think-time exponential:2s", "up to 20.0 s"),
    ] {
        let result = plain(&format!("kv run {} --duration 60s {load}", server.place()));
        assert_eq!(result.code, 3, "{load}: {}", result.stderr);
        assert!(result.stderr.contains("idle for 5 s"), "{load}: {}", result.stderr);
        assert!(result.stderr.contains(idle), "{load}: {}", result.stderr);
    }
    let held = plain(&format!("kv run {} --slices", server.place()));
    assert_eq!(held.code, 3, "{}", held.stderr);
    assert!(held.stderr.contains("between slices"), "{}", held.stderr);
    let busy = run(&format!(
        "kv run {} --quiet --rate 100 --connections 2 --duration 1s --hit-ratio any",
        server.place()
    ));
    assert_sound(&busy, "a load that is never idle");
}

#[test]
fn wrong_input_is_refused_before_any_load_with_the_value_and_a_way_out() {
    for (arguments, code, word) in [
        ("kv run --port 1", 3, "check --host and --port"),
        ("kv run --socket /nowhere/m.sock", 3, "/nowhere/m.sock"),
        ("kv run --protocol ascii", 2, "text, binary or meta"),
        ("kv run --ratio 90", 2, "90:10"),
        ("kv run --ratio 0:0", 2, "0:0"),
        ("kv run --key-size 2", 2, "use at least"),
        ("kv run --key-size 300", 2, "300"),
        ("kv run --value-size big", 2, "big"),
        ("kv run --key-choice zipf", 2, "zipf"),
        ("kv run --cas 60% --delete 50%", 2, "110.0 %"),
        ("kv run --hit-ratio 120%", 2, "120%"),
        ("kv run --preset memtier", 2, "memslap or memaslap"),
        ("kv run --preset memslap --test load", 2, "load"),
        ("kv run --preset memslap --rate 100", 2, "--rate"),
        ("kv run --preset memaslap --fill 100%", 2, "exclude"),
        ("kv run --rate 0", 2, "rate of 0"),
        ("kv run --rate 10 --operations 5", 2, "--operations"),
        ("kv prepare --fill 0%", 2, "stores nothing"),
    ] {
        let result = plain(arguments);
        assert_eq!(result.code, code, "{arguments}: {}", result.stderr);
        assert!(result.stderr.contains(word), "{arguments}: {}", result.stderr);
    }
}

#[test]
fn every_command_of_the_protocols_is_answered_by_the_server() {
    let Some(server) = Memcached::start("every_command_of_the_protocols_is_answered_by_the_server", &[]) else {
        return;
    };
    for protocol in [Protocol::Text, Protocol::Binary, Protocol::Meta] {
        let name = protocol.name();
        let mut client = Client::tcp(("127.0.0.1", server.port), protocol, Duration::from_secs(10)).unwrap();
        let large = vec![b'L'; 500_000];
        let item = |key: &'static [u8], value: &'static [u8]| Item {
            key,
            flags: 7,
            ttl_s: 60,
            value,
        };
        let mut seen = Vec::new();
        let mut cas_value = 0;
        client
            .exchange(
                |connection| {
                    connection.flush_all();
                    connection.store(Store::Replace, &item(b"a", b"1"), false)?;
                    connection.store(Store::Add, &item(b"a", b"10"), false)?;
                    connection.arithmetic(Arithmetic::Increment, b"a", 5, false)?;
                    connection.arithmetic(Arithmetic::Decrement, b"a", 100, false)?;
                    connection.arithmetic(Arithmetic::Increment, b"nothing", 1, false)?;
                    connection.touch(b"a", 30)?;
                    connection.touch(b"nothing", 30)?;
                    connection.store(
                        Store::Set,
                        &Item {
                            value: &large,
                            ..item(b"large", b"")
                        },
                        false,
                    )?;
                    connection.get(b"large", true, Detail::Deliver)?;
                    connection.noop();
                    Ok(())
                },
                |event| match event {
                    Event::Done(done) => seen.push(done.status),
                    Event::Value { cas, data, .. } => {
                        assert_eq!(*data, large, "{name}");
                        cas_value = cas.unwrap();
                    }
                    other => panic!("{name}: {other:?}"),
                },
            )
            .unwrap();
        use Status::{Exists, NotFound, NotStored, Number, Success};
        // The binary protocol says of a replace without an item that there is none.
        let replaced = if protocol == Protocol::Binary {
            NotFound
        } else {
            NotStored
        };
        let expected = [
            Success,
            replaced,
            Success,
            Number(15),
            Number(0),
            NotFound,
            Success,
            NotFound,
            Success,
            Success,
            Success,
        ];
        assert_eq!(seen, expected, "{name}");
        for (cas, status) in [(cas_value + 1000, Exists), (cas_value, Success)] {
            let done = client.exchange(|c| c.store(Store::Cas(cas), &item(b"large", b"x"), false), |_| {});
            assert_eq!(done.unwrap().unwrap().status, status, "{name}");
        }
        let deleted = client.exchange(|c| c.delete(b"a", false), |_| {}).unwrap().unwrap();
        assert_eq!(deleted.status, Success, "{name}");
        assert!(
            client
                .version()
                .unwrap()
                .starts_with(|first: char| first.is_ascii_digit()),
            "{name}"
        );
        assert!(
            client.stats("").unwrap().iter().any(|(name, _)| name == "cmd_set"),
            "{name}"
        );
    }
}
