//! Once the buffers have grown, no operation allocates.

use dyno_allocations::{of_this_thread, CountingAllocator};
use dyno_kv::{Connection, Detail, Event, Item, Protocol, Store};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// One round: a get that hits, a get that misses, a set, and a multi-get, whose replies come in pieces of 100 bytes.
fn round(connection: &mut Connection, replies: &[u8]) -> u64 {
    let item = Item {
        key: b"some-key",
        flags: 0,
        ttl_s: 0,
        value: &[b'v'; 1024],
    };
    connection.get(b"some-key", false, Detail::Deliver).unwrap();
    connection.get(b"other-key", false, Detail::Skip).unwrap();
    connection.store(Store::Set, &item, false).unwrap();
    connection
        .multi_get([b"some-key".as_slice(), b"b"].into_iter(), Detail::Skip)
        .unwrap();
    let outgoing = connection.outgoing().len();
    connection.sent(outgoing);
    let mut done = 0;
    for piece in replies.chunks(100) {
        let mut input = piece;
        while let Some(event) = connection.advance(&mut input).unwrap() {
            done += u64::from(matches!(event, Event::Done(_)));
        }
    }
    done
}

fn replies(protocol: Protocol) -> Vec<u8> {
    let value = [b'v'; 1024];
    let mut out = Vec::new();
    match protocol {
        Protocol::Text => {
            for tail in ["END\r\nEND\r\nSTORED\r\n", "END\r\n"] {
                out.extend(b"VALUE some-key 0 1024\r\n");
                out.extend(value);
                out.extend(b"\r\n");
                out.extend(tail.bytes());
            }
        }
        Protocol::Meta => {
            for (head, tail) in [("VA 1024\r\n", "EN\r\nHD\r\n"), ("VA 1024 ksome-key\r\n", "MN\r\n")] {
                out.extend(head.bytes());
                out.extend(value);
                out.extend(b"\r\n");
                out.extend(tail.bytes());
            }
        }
        Protocol::Binary => {
            let mut frame = |opcode: u8, status: u8, key: &[u8], value: &[u8]| {
                let extras = if value.is_empty() { 0 } else { 4 };
                out.extend([0x81, opcode, 0, key.len() as u8, extras, 0, 0, status]);
                out.extend((u32::from(extras) + (key.len() + value.len()) as u32).to_be_bytes());
                out.extend([0; 12]);
                out.extend(&[0; 4][..extras as usize]);
                out.extend_from_slice(key);
                out.extend_from_slice(value);
            };
            frame(0x00, 0, b"", &value);
            frame(0x00, 1, b"", b"");
            frame(0x01, 0, b"", b"");
            frame(0x0d, 0, b"some-key", &value);
            frame(0x0a, 0, b"", b"");
        }
    }
    out
}

#[test]
fn no_operation_allocates() {
    for protocol in [Protocol::Text, Protocol::Binary, Protocol::Meta] {
        let mut connection = Connection::new(protocol);
        let replies = replies(protocol);
        assert_eq!(round(&mut connection, &replies), 4, "{}", protocol.name());
        round(&mut connection, &replies);
        let before = of_this_thread();
        for _ in 0..1000 {
            round(&mut connection, &replies);
        }
        assert_eq!(of_this_thread() - before, 0, "{}", protocol.name());
    }
}
