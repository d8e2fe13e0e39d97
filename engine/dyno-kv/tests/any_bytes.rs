//! Any bytes, cut anywhere: the same events or an error, never a panic.

use dyno_kv::{Arithmetic, Connection, Detail, Event, Item, Protocol, Store};
use proptest::prelude::*;

const PROTOCOLS: [Protocol; 3] = [Protocol::Text, Protocol::Binary, Protocol::Meta];

/// One request of each kind, with the value's detail as asked; the last is a version.
fn ask_everything(connection: &mut Connection, detail: Detail) {
    let item = Item {
        key: b"key",
        flags: 7,
        ttl_s: 60,
        value: b"a value\r\nEND\r\n",
    };
    connection.get(b"key", false, detail).unwrap();
    connection.get(b"other", true, detail).unwrap();
    connection
        .multi_get([b"key".as_slice(), b"other", b"third"].into_iter(), detail)
        .unwrap();
    for store in [Store::Set, Store::Add, Store::Replace, Store::Cas(5)] {
        connection.store(store, &item, false).unwrap();
    }
    connection.delete(b"key", false).unwrap();
    connection
        .arithmetic(Arithmetic::Increment, b"counter", 3, false)
        .unwrap();
    connection.touch(b"key", 60).unwrap();
    connection.flush_all();
    connection.stats(b"").unwrap();
    connection.noop();
    connection.version();
}

/// What the server sends for all that: everything is there, the second get misses, the cas finds a change.
fn answers(protocol: Protocol) -> Vec<u8> {
    match protocol {
        Protocol::Text => b"VALUE key 7 14\r\na value\r\nEND\r\n\r\nEND\r\nEND\r\n\
            VALUE key 7 14\r\na value\r\nEND\r\n\r\nVALUE third 0 0\r\n\r\nEND\r\n\
            STORED\r\nNOT_STORED\r\nSTORED\r\nEXISTS\r\nDELETED\r\n12\r\nTOUCHED\r\nOK\r\n\
            STAT pid 1\r\nSTAT version 1.6.18 and more\r\nSTAT empty \r\nEND\r\nVERSION 1.6.18\r\nVERSION 1.6.18\r\n"
            .to_vec(),
        Protocol::Meta => b"VA 14\r\na value\r\nEND\r\n\r\nEN\r\n\
            VA 14 kkey\r\na value\r\nEND\r\n\r\nVA 0 kthird\r\n\r\nMN\r\n\
            HD\r\nNS\r\nHD\r\nEX\r\nHD\r\nVA 2\r\n12\r\nHD\r\nOK\r\n\
            STAT pid 1\r\nSTAT version 1.6.18 and more\r\nSTAT empty \r\nEND\r\nMN\r\nVERSION 1.6.18\r\n"
            .to_vec(),
        Protocol::Binary => {
            let mut out = Vec::new();
            let mut frame = |opcode: u8, status: u16, extras: &[u8], key: &[u8], value: &[u8]| {
                out.extend([0x81, opcode, 0, key.len() as u8, extras.len() as u8, 0]);
                out.extend(status.to_be_bytes());
                out.extend(((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
                out.extend([0; 11]);
                out.push(9);
                [extras, key, value].iter().for_each(|part| out.extend_from_slice(part));
            };
            let (flags, value) = ([0, 0, 0, 7], b"a value\r\nEND\r\n");
            frame(0x00, 0, &flags, b"", value);
            frame(0x00, 1, b"", b"", b"Not found");
            frame(0x0d, 0, &flags, b"key", value);
            frame(0x0d, 0, &[0; 4], b"third", b"");
            frame(0x0a, 0, b"", b"", b"");
            frame(0x01, 0, b"", b"", b"");
            frame(0x02, 5, b"", b"", b"Not stored");
            frame(0x03, 0, b"", b"", b"");
            frame(0x01, 2, b"", b"", b"Data exists for key.");
            frame(0x04, 0, b"", b"", b"");
            frame(0x05, 0, b"", b"", &12u64.to_be_bytes());
            frame(0x1c, 0, b"", b"", b"");
            frame(0x08, 0, b"", b"", b"");
            frame(0x10, 0, b"", b"pid", b"1");
            frame(0x10, 0, b"", b"version", b"1.6.18 and more");
            frame(0x10, 0, b"", b"empty", b"");
            frame(0x10, 0, b"", b"", b"");
            frame(0x0a, 0, b"", b"", b"");
            frame(0x0b, 0, b"", b"", b"1.6.18");
            out
        }
    }
}

fn show(event: &Event<'_>) -> String {
    format!("{event:?}")
}

/// Every event of the bytes in pieces of these lengths, the last one repeated; or the error.
fn read(connection: &mut Connection, bytes: &[u8], pieces: &[usize]) -> Result<Vec<String>, dyno_kv::Error> {
    let mut events = Vec::new();
    let (mut rest, mut turn) = (bytes, 0);
    while !rest.is_empty() {
        let length = pieces[turn.min(pieces.len() - 1)].clamp(1, rest.len());
        turn += 1;
        let (mut piece, after) = rest.split_at(length);
        rest = after;
        while let Some(event) = connection.advance(&mut piece)? {
            events.push(show(&event));
        }
        assert!(piece.is_empty(), "input was left without an event");
    }
    Ok(events)
}

#[test]
fn every_reply_is_understood_in_every_protocol() {
    for protocol in PROTOCOLS {
        let mut connection = Connection::new(protocol);
        ask_everything(&mut connection, Detail::Deliver);
        assert_eq!(connection.outstanding(), 14);
        let bytes = answers(protocol);
        let events = read(&mut connection, &bytes, &[bytes.len()]).unwrap();
        let text = events.join("\n");
        assert_eq!(connection.outstanding(), 0, "{text}");
        assert_eq!(
            events.iter().filter(|event| event.starts_with("Value")).count(),
            3,
            "{text}"
        );
        assert_eq!(
            events.iter().filter(|event| event.starts_with("Stat")).count(),
            3,
            "{text}"
        );
        for word in [
            "NotFound",
            "NotStored",
            "Exists",
            "Number(12)",
            "hits: 2, keys: 3",
            "hits: 0, keys: 1",
        ] {
            assert!(text.contains(word), "{} has no {word}:\n{text}", protocol.name());
        }
        assert!(connection.end_of_input().is_none());
    }
}

#[test]
fn skipped_values_are_counted_as_delivered_ones_are() {
    for protocol in PROTOCOLS {
        let done = |detail| {
            let mut connection = Connection::new(protocol);
            ask_everything(&mut connection, detail);
            let bytes = answers(protocol);
            let mut events = read(&mut connection, &bytes, &[bytes.len()]).unwrap();
            events.retain(|event| event.starts_with("Done"));
            events
        };
        assert_eq!(done(Detail::Skip), done(Detail::Deliver), "{}", protocol.name());
    }
}

#[test]
fn refusals_leave_the_connection_usable() {
    let mut text = Connection::new(Protocol::Text);
    text.get(b"key", false, Detail::Skip).unwrap();
    text.get(b"key", false, Detail::Skip).unwrap();
    let events = read(
        &mut text,
        b"SERVER_ERROR out of memory writing get response\r\nEND\r\n",
        &[100],
    )
    .unwrap();
    assert!(
        events[0].contains("out of memory") && events[1].contains("NotFound"),
        "{events:?}"
    );
    let mut binary = Connection::new(Protocol::Binary);
    binary.get(b"key", false, Detail::Skip).unwrap();
    let mut frame = vec![0x81, 0x00, 0, 0, 0, 0, 0, 0x82, 0, 0, 0, 4];
    frame.extend([0; 12]);
    frame.extend(b"Full");
    let events = read(&mut binary, &frame, &[7]).unwrap();
    assert!(events[0].contains("0x0082") && events[0].contains("Full"), "{events:?}");
}

#[test]
fn failures_of_quiet_requests_are_told_apart_from_replies() {
    let item = Item {
        key: b"key",
        flags: 0,
        ttl_s: 0,
        value: b"x",
    };
    let mut meta = Connection::new(Protocol::Meta);
    meta.store(Store::Add, &item, true).unwrap();
    meta.noop();
    assert_eq!(meta.outstanding(), 1);
    let events = read(&mut meta, b"NS O1\r\nMN\r\n", &[3]).unwrap();
    assert!(
        events[0].contains("QuietFailed(NotStored)") && events[1].starts_with("Done"),
        "{events:?}"
    );
    let mut binary = Connection::new(Protocol::Binary);
    binary.store(Store::Add, &item, true).unwrap();
    binary.noop();
    let mut frames = vec![0x81, 0x12, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1];
    frames.extend([0; 8]);
    frames.extend([0x81, 0x0a]);
    frames.extend([0; 22]);
    let events = read(&mut binary, &frames, &[5]).unwrap();
    assert!(
        events[0].contains("QuietFailed(Exists)") && events[1].starts_with("Done"),
        "{events:?}"
    );
}

#[test]
fn keys_that_the_protocol_cannot_carry_are_refused_and_nothing_is_sent() {
    for protocol in PROTOCOLS {
        let mut connection = Connection::new(protocol);
        let long = vec![b'k'; 251];
        for key in [b"".as_slice(), b"a b", b"a\r\nflush_all", b"a\x7f", &long] {
            assert!(connection.get(key, false, Detail::Skip).is_err());
            assert!(connection
                .multi_get([b"good".as_slice(), key].into_iter(), Detail::Skip)
                .is_err());
        }
        assert!(connection.outgoing().is_empty() && connection.outstanding() == 0);
    }
}

#[test]
fn what_nobody_asked_for_and_lines_without_end_are_errors() {
    for protocol in PROTOCOLS {
        let bytes = answers(protocol);
        assert!(read(&mut Connection::new(protocol), &bytes, &[bytes.len()]).is_err());
    }
    for protocol in [Protocol::Text, Protocol::Meta] {
        let mut connection = Connection::new(protocol);
        connection.get(b"key", false, Detail::Skip).unwrap();
        assert!(read(&mut connection, &[b'x'; 20_000], &[1000]).is_err());
        let mut connection = Connection::new(protocol);
        connection.get(b"key", false, Detail::Deliver).unwrap();
        assert!(read(&mut connection, b"VALUE key 0 99999999999\r\n", &[30]).is_err());
    }
    let mut one = Connection::new(Protocol::Text);
    one.get(b"key", false, Detail::Skip).unwrap();
    let twice = b"VALUE key 0 1\r\na\r\nVALUE key 0 1\r\na\r\nEND\r\n";
    assert!(read(&mut one, twice, &[50]).is_err(), "more values than keys");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn cuts_change_nothing(
        protocol in 0usize..3, deliver: bool, pieces in proptest::collection::vec(1usize..40, 1..30),
    ) {
        let protocol = PROTOCOLS[protocol];
        let detail = if deliver { Detail::Deliver } else { Detail::Skip };
        let bytes = answers(protocol);
        let events = |pieces: &[usize]| {
            let mut connection = Connection::new(protocol);
            ask_everything(&mut connection, detail);
            read(&mut connection, &bytes, pieces)
        };
        prop_assert_eq!(events(&pieces), events(&[bytes.len()]));
    }

    #[test]
    fn changed_bytes_give_events_or_an_error_wherever_they_are_cut(
        protocol in 0usize..3,
        deliver: bool,
        changes in proptest::collection::vec((0usize..2000, any::<u8>()), 1..6),
        pieces in proptest::collection::vec(1usize..60, 1..20),
    ) {
        let protocol = PROTOCOLS[protocol];
        let detail = if deliver { Detail::Deliver } else { Detail::Skip };
        let mut bytes = answers(protocol);
        for (place, byte) in changes {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        let events = |pieces: &[usize]| {
            let mut connection = Connection::new(protocol);
            ask_everything(&mut connection, detail);
            read(&mut connection, &bytes, pieces).map_err(|_| ())
        };
        prop_assert_eq!(events(&pieces), events(&[bytes.len()]));
    }

    #[test]
    fn random_bytes_never_panic(
        protocol in 0usize..3, bytes in proptest::collection::vec(any::<u8>(), 0..600), piece in 1usize..50,
    ) {
        let mut connection = Connection::new(PROTOCOLS[protocol]);
        ask_everything(&mut connection, Detail::Deliver);
        let _ = read(&mut connection, &bytes, &[piece]);
    }
}
