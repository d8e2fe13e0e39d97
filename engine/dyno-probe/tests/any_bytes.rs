//! Whatever a file holds, the collectors read it without a panic and what they put out is valid JSON.

mod common;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use common::{fixtures, overlay};
use dyno_probe::clock::Clock;
use dyno_probe::collector::Moment;
use dyno_probe::machine::{Disk, Machine, Process, Role};
use dyno_probe::mysql::session::Session;
use dyno_probe::mysql::status_family::Wanted;
use dyno_probe::mysql::{redo, Dump};
use dyno_probe::roster::Roster;
use dyno_probe::sample::Sample;
use proptest::prelude::*;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
}

/// Either anything at all, or the true file with some bytes changed: the second goes deeper into the parsers.
fn content(true_bytes: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20);
    let changed = changes.prop_map(move |changes| {
        let mut bytes = true_bytes.clone();
        for (index, byte) in changes {
            if !bytes.is_empty() {
                let place = index.index(bytes.len());
                bytes[place] = byte;
            }
        }
        bytes
    });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..2000), changed]
}

fn collect(root: &Path, damaged: &Path, bytes: &[u8]) {
    let mut machine = Machine::new(root.join("proc"), root.join("sys"));
    let mut roster = Roster::default();
    let mut sample = Sample::default();
    let mut buffer = Vec::new();
    let process = |role, pid| Process {
        role,
        id: "1".into(),
        pid,
    };
    // Half of the files are damaged before they are opened, which matters for those that are read once.
    if bytes.len() % 2 == 0 {
        fs::write(damaged, bytes).unwrap();
    }
    machine.disks = Disk::find("vda", &machine).map(|disk| vec![disk]);
    roster.add_host(&machine);
    roster.add_process(&machine, &process(Role::Server, 77));
    roster.add_process(&machine, &process(Role::Driver, 88));
    for second in 0..3 {
        if second > 0 {
            fs::write(damaged, bytes).unwrap();
        }
        let clock = Clock::Manual(Cell::new(second * 11_000_000_000));
        let mut moment = Moment {
            clock: &clock,
            buffer: &mut buffer,
            backwards: 0,
        };
        sample.clear();
        roster.collect(&mut moment, &mut sample);
        let text = serde_json::to_string(&sample).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }
}

#[test]
fn any_bytes_in_any_file_of_the_host() {
    let host = tempfile::tempdir().unwrap();
    overlay(&fixtures().join("host/1"), host.path());
    let mut all = Vec::new();
    files(&host.path().join("proc"), &mut all);
    files(&host.path().join("sys"), &mut all);
    assert!(all.len() > 25, "only {} files", all.len());
    for path in all {
        let true_bytes = fs::read(&path).unwrap();
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(24));
        runner
            .run(&content(true_bytes.clone()), |bytes| {
                collect(host.path(), &path, &bytes);
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        fs::write(&path, true_bytes).unwrap();
    }
}

#[test]
fn any_bytes_in_a_servers_answers() {
    let folder = tempfile::tempdir().unwrap();
    overlay(&fixtures().join("servers/mysql-5.7-metrics-enabled"), folder.path());
    let mut all = Vec::new();
    files(folder.path(), &mut all);
    let wanted = Wanted::of(&[]);
    for path in all {
        let true_bytes = fs::read(&path).unwrap();
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(50));
        runner
            .run(&content(true_bytes.clone()), |bytes| {
                fs::write(&path, &bytes).unwrap();
                if let Ok(mut session) = Session::start(Box::new(Dump::new(folder.path().into())), &wanted) {
                    let _ = session.read(&wanted);
                }
                Ok(())
            })
            .unwrap();
        fs::write(&path, true_bytes).unwrap();
    }
}

proptest! {
    #[test]
    fn any_bytes_as_the_engines_status(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        redo::parse_status(&bytes);
    }
}
