//! Once the buffers have grown, no operation allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use dyno_kv::{Connection, Detail, Event, Item, Protocol, Store};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of the caller.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of GlobalAlloc.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of GlobalAlloc.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of GlobalAlloc.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for _ in 0..1000 {
            round(&mut connection, &replies);
        }
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0, "{}", protocol.name());
    }
}
