//! Packets as tcpdump writes them, of connections that the tests make up: which statements they give.
//!
//! With MYDYNO_TEST_ALL=1 many examples are tried, otherwise few.

use dyno_capture::{Action, Assembler, Capture, Event, LogKind, LogReader, Origin, Problem, Source, Statement};
use dyno_mysql::constants::{capability as c, column_type as t, command, MAX_PACKET_PAYLOAD};
use dyno_mysql::{Compression, Compressor};
use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep, TcpHeader};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

const BEGIN_US: u32 = 1_700_000_000;
const RAW: i32 = 101;
const PLAIN: u32 = (c::MYSQL | c::PROTOCOL_41 | c::SECURE_CONNECTION | c::CONNECT_WITH_DB) as u32;

/// One connection as a test sends it: IP packets with their times.
#[derive(Clone)]
struct Talk {
    port: u16,
    next: [u32; 2],
    at_us: u32,
    packets: Vec<(u32, Vec<u8>)>,
    /// Of each packet: who sent it, its two numbers, and its data.
    sent: Vec<(Side, u32, u32, Vec<u8>)>,
}

impl Talk {
    /// One whose beginning is not captured.
    fn joined(port: u16) -> Self {
        Self {
            port,
            next: [u32::MAX - 40 + u32::from(port - 4000), u32::from(port)],
            at_us: 0,
            packets: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn new(port: u16) -> Self {
        let mut talk = Self::joined(port);
        talk.put(Side::Client, &[], |tcp| tcp.syn = true);
        talk.next[0] = talk.next[0].wrapping_add(1);
        talk.put(Side::Server, &[], |tcp| tcp.syn = true);
        talk.next[1] += 1;
        talk
    }

    fn put(&mut self, side: Side, data: &[u8], change: impl Fn(&mut TcpHeader)) {
        let (sequence, seen) = (self.next[side as usize], self.next[1 - side as usize]);
        let packet = segment(self.port, side, sequence, seen, data, change);
        self.packets.push((self.at_us, packet));
        self.sent.push((side, sequence, seen, data.to_vec()));
        self.next[side as usize] = sequence.wrapping_add(data.len() as u32);
        self.at_us += 100;
    }

    fn client(&mut self, data: &[u8]) -> &mut Self {
        self.put(Side::Client, data, |_| {});
        self
    }

    fn server(&mut self, data: &[u8]) -> &mut Self {
        self.put(Side::Server, data, |_| {});
        self
    }

    fn login(&mut self, capabilities: u64) -> &mut Self {
        let flags = PLAIN | capabilities as u32;
        self.server(&greeting())
            .client(&answer_of("app", "shop", flags))
            .server(&reply(2, &OK))
    }

    fn query(&mut self, text: &str) -> &mut Self {
        self.client(&query(text)).server(&reply(1, &OK))
    }
}

fn segment(port: u16, side: Side, sequence: u32, seen: u32, data: &[u8], change: impl Fn(&mut TcpHeader)) -> Vec<u8> {
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let step = match side {
        Side::Client => PacketBuilder::ipv4(client, server, 64),
        Side::Server => PacketBuilder::ipv4(server, client, 64),
    };
    let (from, to) = if side == Side::Client {
        (port, 3306)
    } else {
        (3306, port)
    };
    tcp(step, from, to, sequence, seen, data, change)
}

fn tcp(
    step: PacketBuilderStep<IpHeaders>,
    from: u16,
    to: u16,
    sequence: u32,
    seen: u32,
    data: &[u8],
    change: impl Fn(&mut TcpHeader),
) -> Vec<u8> {
    let mut header = TcpHeader::new(from, to, sequence, 1024);
    (header.ack, header.acknowledgment_number) = (true, seen);
    change(&mut header);
    if header.syn && to == 3306 {
        (header.ack, header.acknowledgment_number) = (false, 0);
    }
    let mut out = Vec::new();
    step.tcp_header(header).write(&mut out, data).unwrap();
    out
}

fn file_of(link: i32, snap: usize, packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0];
    out.extend_from_slice(&link.to_le_bytes());
    for (at_us, data) in packets {
        let kept = data.len().min(snap);
        let numbers = [
            BEGIN_US + at_us / 1_000_000,
            at_us % 1_000_000,
            kept as u32,
            data.len() as u32,
        ];
        out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        out.extend_from_slice(&data[..kept]);
    }
    out
}

fn read(file: &[u8]) -> std::result::Result<Capture, String> {
    assert_eq!(LogKind::recognise(file), Some(LogKind::Packets));
    let mut assembler = Assembler::new(Origin {
        source: Source::Packets,
        time_is_end: false,
    });
    assembler.enter("a.pcap");
    let mut reader = LogReader::new(LogKind::Packets, &[3306]);
    reader.read(file, &mut assembler).map_err(|error| error.to_string())?;
    reader.finish(assembler)
}

fn captured(packets: &[(u32, Vec<u8>)]) -> Capture {
    read(&file_of(RAW, usize::MAX, packets)).unwrap()
}

fn texts(capture: &Capture) -> Vec<String> {
    let text = |event: &Event| match &event.action {
        Action::Statement(statement) => Some(String::from_utf8_lossy(&statement.text).into_owned()),
        _ => None,
    };
    capture.events.iter().filter_map(text).collect()
}

fn problems(capture: &Capture) -> Vec<(Problem, u64)> {
    capture
        .header
        .problems
        .iter()
        .map(|one| (one.problem, one.count))
        .collect()
}

const OK: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];

fn reply(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    [&length.to_le_bytes()[..3], &[sequence], payload].concat()
}

fn query(text: &str) -> Vec<u8> {
    reply(0, &[&[command::QUERY], text.as_bytes()].concat())
}

fn greeting() -> Vec<u8> {
    let all = u32::MAX.to_le_bytes();
    let rest = [
        &all[..2],
        &[45, 2, 0],
        &all[2..],
        &[21],
        &[0; 10],
        &[7; 13],
        b"mysql_native_password\0",
    ]
    .concat();
    reply(
        0,
        &[b"\x0a8.0.36\0\x09\0\0\0".as_slice(), &[7; 8], &[0], &rest].concat(),
    )
}

fn answer_of(user: &str, schema: &str, flags: u32) -> Vec<u8> {
    let names = format!("{user}\0\x03abc{schema}\0");
    reply(1, &[&flags.to_le_bytes()[..], &[0; 28], names.as_bytes()].concat())
}

/// Two columns, and rows of them.
fn rows(count: u8, has_eof: bool) -> Vec<u8> {
    let mut packets: Vec<&[u8]> = vec![b"\x02", b"\x03def a", b"\x03def b"];
    if has_eof {
        packets.push(b"\xfe\0\0\x02\0");
    }
    packets.extend((0..count).map(|_| b"\x011\x03def".as_slice()));
    packets.push(if has_eof {
        b"\xfe\0\0\x02\0"
    } else {
        b"\xfe\0\0\x02\0\0\0"
    });
    (1..)
        .zip(packets)
        .flat_map(|(sequence, packet)| reply(sequence, packet))
        .collect()
}

#[test]
fn a_connection_is_captured_from_its_login_to_its_end() {
    let mut talk = Talk::new(4000);
    talk.login(0)
        .client(&query("SELECT a, b FROM t"))
        .server(&rows(3, true));
    talk.client(&query("SELECT 1;  SELECT ';' ; ")).server(&rows(1, false));
    talk.client(&reply(0, b"\x02other")).server(&reply(1, &OK));
    talk.client(&reply(0, b"\x02missing"))
        .server(&reply(1, b"\xff\x19\x04#42000no"));
    talk.client(&reply(0, b"\x0e"))
        .server(&reply(1, &OK))
        .client(&reply(0, b"\x01"));
    let capture = captured(&talk.packets);
    assert_eq!(capture.header.server.as_deref(), Some("8.0.36"));
    assert_eq!(capture.header.begin.as_deref(), Some("2023-11-14T22:13:20.000300"));
    let statement = |text: &str, duration_us, rows| {
        Action::Statement(Statement {
            schema: Some("shop".into()),
            text: text.into(),
            duration_us,
            rows,
            count: None,
        })
    };
    let connect = Action::Connect {
        connection_id: 1,
        user: Some("app@10.0.0.1".into()),
        schema: Some("shop".into()),
    };
    let expected = [
        (0, connect),
        (200, statement("SELECT a, b FROM t", Some(100), Some(3))),
        (400, statement("SELECT 1", Some(100), None)),
        (400, statement("SELECT ';'", None, None)),
        (600, Action::Schema("other".into())),
        (1200, Action::Quit),
    ];
    let events: Vec<_> = capture
        .events
        .into_iter()
        .map(|event| (event.at_us, event.action))
        .collect();
    assert_eq!(events, expected);
    assert!(capture.header.problems.is_empty());
}

#[test]
fn statements_after_one_that_has_failed_were_not_executed() {
    let mut talk = Talk::new(4000);
    talk.login(0).client(&query("SELECT 1; SELECT wrong; SELECT 3"));
    let results = [reply(1, b"\0\0\0\x0a\0\0\0"), reply(2, b"\xff\x1e\x04#42S22no")];
    talk.server(&results.concat());
    assert_eq!(texts(&captured(&talk.packets)), ["SELECT 1", "SELECT wrong"]);
}

#[test]
fn another_user_and_a_reset_are_captured() {
    let mut talk = Talk::new(4000);
    talk.login(0).query("SET @a = 1");
    talk.client(&reply(0, b"\x11eve\0\x01xcrm\0"))
        .server(&reply(1, b"\xfeplugin\0"))
        .client(&reply(2, b"secret"));
    talk.server(&reply(3, &OK))
        .query("SELECT 2")
        .client(&reply(0, b"\x1f"))
        .server(&reply(1, &OK));
    let capture = captured(&talk.packets);
    let reset = |user: Option<&str>| Action::Reset {
        user: user.map(str::to_string),
        schema: Some("crm".into()),
    };
    assert_eq!(capture.events[2].action, reset(Some("eve@10.0.0.1")));
    assert_eq!(capture.events[4].action, reset(None));
    assert_eq!(texts(&capture), ["SET @a = 1", "SELECT 2"]);
}

#[test]
fn sessions_begin_in_the_character_set_of_their_login() {
    let login = |charset: u8, statements: &[&[u8]]| {
        let mut answer = answer_of("app", "shop", PLAIN);
        answer[4 + 4 + 4] = charset;
        let mut talk = Talk::new(4000);
        talk.server(&greeting()).client(&answer).server(&reply(2, &OK));
        for text in statements {
            talk.client(&reply(0, &[&[command::QUERY], *text].concat()))
                .server(&reply(1, &OK));
        }
        talk
    };
    let of = |charset, statements: &[&[u8]]| texts(&captured(&login(charset, statements).packets));
    let latin1: &[u8] = b"SELECT 'caf\xe9'";
    assert_eq!(
        of(8, &[latin1, b"SELECT 2"])[..2],
        ["SET NAMES latin1", "SELECT 'caf\u{fffd}'"]
    );
    assert_eq!(of(8, &[b"SET NAMES utf8", b"SELECT 2"]), ["SET NAMES utf8", "SELECT 2"]);
    assert_eq!(of(45, &["SELECT 'caf\u{e9}'".as_bytes()]), ["SELECT 'caf\u{e9}'"]);
    assert_eq!(
        of(45, &[b"SELECT 1", latin1])[..2],
        ["SELECT 1", "SET NAMES utf8mb4"],
        "binary values"
    );
    let mut talk = login(8, &[b"SELECT 1"]);
    talk.client(&reply(0, b"\x11eve\0\x01xcrm\0\x33\0"))
        .server(&reply(1, &OK))
        .query("SELECT 2");
    talk.client(&reply(0, b"\x1f")).server(&reply(1, &OK)).query("SELECT 3");
    let expected = [
        "SET NAMES latin1",
        "SELECT 1",
        "SET NAMES cp1251",
        "SELECT 2",
        "SET NAMES cp1251",
        "SELECT 3",
    ];
    assert_eq!(texts(&captured(&talk.packets)), expected);
}

/// An execution of statement 5, without the types if they are known.
fn execute(types: Option<&[u16]>, values: &[u8], attributes: &[u8]) -> Vec<u8> {
    let mut payload = vec![command::STMT_EXECUTE, 5, 0, 0, 0, 0, 1, 0, 0, 0];
    payload.extend_from_slice(attributes);
    payload.extend_from_slice(&[0b10, types.is_some().into()]);
    payload.extend(types.unwrap_or_default().iter().flat_map(|kind| kind.to_le_bytes()));
    payload.extend_from_slice(values);
    reply(0, &payload)
}

fn prepare(talk: &mut Talk, text: &str, parameters: u8) {
    talk.client(&reply(0, &[&[command::STMT_PREPARE], text.as_bytes()].concat()));
    let mut packets = vec![vec![0, 5, 0, 0, 0, 0, 0, parameters, 0, 0, 0, 0]];
    packets.extend((0..parameters).map(|_| b"\x03def ?".to_vec()));
    packets.push(b"\xfe\0\0\x02\0".to_vec());
    let all: Vec<u8> = (1..)
        .zip(packets)
        .flat_map(|(sequence, packet)| reply(sequence, &packet))
        .collect();
    talk.server(&all);
}

#[test]
fn prepared_statements_have_their_values() {
    let mut talk = Talk::new(4000);
    prepare(talk.login(0), "INSERT INTO t VALUES (?, ?, '?', ?, ?, ?, ?)", 6);
    let mut types = [t::TINY, t::LONGLONG, t::VAR_STRING, t::DATETIME, t::TIME, t::DOUBLE].map(u16::from);
    types[0] |= 0x8000;
    let values = [
        b"\xff\x04it's".as_slice(),
        b"\x07\xea\x07\x0b\x17\x0a\x1e\x00",
        b"\x0c\x01\x01\0\0\0\x01\x02\x03\x05\0\0\0",
        &1.5f64.to_le_bytes(),
    ];
    talk.client(&execute(Some(&types), &values.concat(), b""))
        .server(&reply(1, &OK));
    talk.client(&reply(0, b"\x18\x05\0\0\0\x02\0lo\\"))
        .client(&reply(0, b"\x18\x05\0\0\0\x02\0ng"));
    let values = [
        b"\x01".as_slice(),
        b"\x04\xea\x07\x0b\x17",
        b"\0",
        &1e300f64.to_le_bytes(),
    ]
    .concat();
    talk.client(&execute(None, &values, b"")).server(&reply(1, &OK));
    talk.client(&reply(0, b"\x19\x05\0\0\0"))
        .client(&execute(None, &values, b""))
        .server(&reply(1, &OK));
    let capture = captured(&talk.packets);
    let expected = [
        "INSERT INTO t VALUES (255, NULL, '?', 'it\\'s', '2026-11-23 10:30:00', '-25:02:03.000005', 1.5)",
        "INSERT INTO t VALUES (1, NULL, '?', 'lo\\\\ng', '2026-11-23 00:00:00', '00:00:00', 1e300)",
    ];
    assert_eq!(texts(&capture), expected);
    assert_eq!(
        problems(&capture),
        [(Problem::PreparedBefore, 1)],
        "after it was closed"
    );
}

#[test]
fn attributes_are_no_part_of_a_statement() {
    let attributes = b"\x01\x01\0\x01\xfd\0\x05trace\x02id";
    for is_joined in [false, true] {
        let mut talk = if is_joined { Talk::joined(4000) } else { Talk::new(4000) };
        if !is_joined {
            talk.login(c::QUERY_ATTRIBUTES);
        }
        talk.client(&reply(0, &[b"\x03".as_slice(), attributes, b"SELECT 1"].concat()))
            .server(&rows(1, true));
        talk.client(&reply(0, b"\x03\0\x01SELECT 2")).server(&rows(1, true));
        prepare(&mut talk, "SELECT ?, ?", 2);
        talk.client(&execute(Some(&[3]), b"\x07\0\0\0", b""))
            .server(&rows(1, true));
        let named = b"\x03\x02\x01\x03\0\0\x03\0\0\xfd\0\x05trace\x07\0\0\0\x02id";
        let payload = [b"\x17\x05\0\0\0\x08\x01\0\0\0".as_slice(), named].concat();
        talk.client(&reply(0, &payload)).server(&rows(1, true));
        let capture = captured(&talk.packets);
        assert_eq!(
            texts(&capture),
            ["SELECT 1", "SELECT 2", "SELECT 7, NULL"],
            "{is_joined}"
        );
    }
}

#[test]
fn connections_that_began_before_are_captured_from_their_next_command_on() {
    let mut talk = Talk::joined(4000);
    talk.server(&rows(2, true)[9..])
        .client(b"text without a beginning")
        .client(&query("SELECT 1"))
        .server(&rows(2, true));
    talk.client(&execute(None, b"", b""))
        .server(&reply(1, &OK))
        .query("SELECT 2");
    let capture = captured(&talk.packets);
    assert_eq!(texts(&capture), ["SELECT 1", "SELECT 2"]);
    assert_eq!(
        problems(&capture),
        [(Problem::BegunBefore, 1), (Problem::PreparedBefore, 1)]
    );
    let Action::Statement(first) = &capture.events[0].action else {
        panic!("{:?}", capture.events);
    };
    assert_eq!((first.duration_us, first.rows), (Some(100), Some(2)));
}

#[test]
fn statements_in_a_gap_are_left_out_and_those_after_it_are_not() {
    let mut talk = Talk::new(4000);
    talk.login(0);
    for number in 0..6 {
        talk.query(&format!("SELECT {number}"));
    }
    let mut packets = talk.packets.clone();
    // A command, and the reply to another one.
    packets.remove(5 + 2 * 3 + 1);
    packets.remove(5 + 2);
    let capture = captured(&packets);
    assert_eq!(
        texts(&capture),
        ["SELECT 0", "SELECT 2", "SELECT 3", "SELECT 4", "SELECT 5"]
    );
    assert_eq!(problems(&capture)[0].0, Problem::LostPackets);
    let cut = read(&file_of(RAW, 50, &talk.packets)).unwrap_err();
    assert!(cut.contains("tcpdump -s 0"), "{cut}");
}

#[test]
fn statements_are_captured_where_replies_are_not() {
    let mut talk = Talk::new(4000);
    talk.login(0).query("SELECT 1").query("SELECT 2").query("SELECT 3");
    let of_client = talk
        .packets
        .iter()
        .zip(&talk.sent)
        .filter(|(_, sent)| sent.0 == Side::Client);
    let capture = captured(&of_client.map(|(packet, _)| packet.clone()).collect::<Vec<_>>());
    assert_eq!(texts(&capture), ["SELECT 1", "SELECT 2", "SELECT 3"]);
    assert!(
        matches!(&capture.events[0].action, Action::Connect { user, .. } if user.as_deref() == Some("app@10.0.0.1"))
    );
}

#[test]
fn who_logs_in_is_known_where_the_servers_packets_are_missing() {
    for flag in [0, c::COMPRESS] {
        for missing in [2, 4] {
            let mut talk = Talk::new(4000);
            talk.login(flag);
            let text = query("SELECT 1");
            let mut sent = text.clone();
            if flag != 0 {
                sent.clear();
                let compressor = Compressor::new(Compression::Zlib { level: 6 }).unwrap();
                compressor.compress(&text, &mut sent).unwrap();
            }
            talk.client(&sent);
            talk.packets.remove(missing);
            let capture = captured(&talk.packets);
            assert_eq!(texts(&capture), ["SELECT 1"], "{flag} {missing}");
            assert!(
                matches!(&capture.events[0].action, Action::Connect { schema, .. } if schema.as_deref() == Some("shop"))
            );
        }
    }
}

#[test]
fn compressed_connections_are_captured() {
    for (flag, compression) in [
        (c::COMPRESS, Compression::Zlib { level: 6 }),
        (c::ZSTD_COMPRESSION, Compression::Zstd { level: 3 }),
    ] {
        let compress = |data: &[u8]| {
            let mut out = Vec::new();
            Compressor::new(compression).unwrap().compress(data, &mut out).unwrap();
            out
        };
        let long = format!("SELECT '{}'", "a".repeat(200));
        for is_joined in [false, true] {
            let mut talk = if is_joined { Talk::joined(4000) } else { Talk::new(4000) };
            if !is_joined {
                talk.login(flag);
            }
            talk.client(&compress(&query(&long))).server(&compress(&rows(4, true)));
            talk.client(&compress(&query("SELECT 1")))
                .server(&compress(&rows(1, true)));
            let capture = captured(&talk.packets);
            assert_eq!(texts(&capture), [&long, "SELECT 1"], "{compression:?} {is_joined}");
        }
    }
}

#[test]
fn payloads_of_several_packets_are_whole() {
    let long = "a".repeat(MAX_PACKET_PAYLOAD + 10);
    let payload = format!("\x03SELECT '{long}'").into_bytes();
    let (first, rest) = payload.split_at(MAX_PACKET_PAYLOAD);
    let mut talk = Talk::new(4000);
    talk.login(0);
    for part in [reply(0, first), reply(1, rest)].concat().chunks(60_000) {
        talk.client(part);
    }
    talk.server(&reply(2, &OK)).query("SELECT 2");
    let capture = captured(&talk.packets);
    assert_eq!(
        texts(&capture).iter().map(String::len).collect::<Vec<_>>(),
        [payload.len() - 1, 8]
    );
}

#[test]
fn files_that_a_client_sends_are_no_commands() {
    let mut talk = Talk::new(4000);
    talk.login(0)
        .client(&query("LOAD DATA LOCAL INFILE 'f' INTO TABLE t"))
        .server(&reply(1, b"\xfbf"));
    for sequence in 2..600 {
        talk.client(&reply(sequence as u8, b"\x03SELECT"));
    }
    talk.client(&reply(88, b"")).server(&reply(89, &OK)).query("SELECT 1");
    assert_eq!(
        texts(&captured(&talk.packets)),
        ["LOAD DATA LOCAL INFILE 'f' INTO TABLE t", "SELECT 1"]
    );
}

#[test]
fn what_cannot_be_read_is_said_with_what_to_do() {
    let mut tls = Talk::new(4000);
    let request = [&(PLAIN | c::SSL as u32).to_le_bytes()[..], &[0; 28]].concat();
    tls.server(&greeting())
        .client(&reply(1, &request))
        .client(b"\x16\x03\x01\0\x02ab");
    let mut joined = Talk::joined(4001);
    joined.client(b"\x17\x03\x03\0\x16abc");
    let encrypted = [tls.packets.clone(), joined.packets].concat();
    let error = read(&file_of(RAW, usize::MAX, &encrypted)).unwrap_err();
    assert!(error.contains("2 of its 2 connections are encrypted (TLS)"), "{error}");

    let mut other = Talk::new(4002);
    other.login(0).query("SELECT 1");
    let capture = captured(&[encrypted, other.packets].concat());
    assert_eq!(texts(&capture), ["SELECT 1"]);
    assert_eq!(problems(&capture), [(Problem::Encrypted, 2)]);

    let step = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let packet = tcp(step, 40_000, 3307, 1, 1, b"x", |_| {});
    let error = read(&file_of(RAW, usize::MAX, &[(0, packet)])).unwrap_err();
    assert!(
        error.contains("no packet is of port 3306, most are of 3307: --port 3307"),
        "{error}"
    );
    assert!(read(&file_of(RAW, usize::MAX, &[]))
        .unwrap_err()
        .contains("no packet is of TCP"));
    assert!(read(&file_of(127, usize::MAX, &tls.packets))
        .unwrap_err()
        .contains("link layer has number 127"));
    assert!(read(&file_of(RAW, usize::MAX, &tls.packets)[..10]).is_err());
    let no_interface = [
        b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0".as_slice(),
        &[255; 8],
        b"\x1c\0\0\0",
        b"\x06\0\0\0\x20\0\0\0",
        &[0; 20],
        b"\x20\0\0\0",
    ];
    let error = read(&no_interface.concat()).unwrap_err();
    assert!(error.contains("packet 1 is of an unknown interface"), "{error}");
}

#[test]
fn refused_and_replicating_connections_are_counted() {
    let mut refused = Talk::new(4000);
    refused
        .server(&greeting())
        .client(&answer_of("app", "shop", PLAIN))
        .server(&reply(2, b"\xff\x15\x04#28000no"));
    let mut replica = Talk::new(4001);
    replica
        .login(0)
        .query("SELECT 1")
        .client(&reply(0, b"\x12\0\0\0\0"))
        .server(&reply(1, b"\0event"));
    let capture = captured(&[refused.packets, replica.packets].concat());
    assert_eq!(texts(&capture), ["SELECT 1"]);
    assert_eq!(
        problems(&capture),
        [(Problem::RefusedConnection, 1), (Problem::Administration, 1)]
    );
}

#[test]
fn a_connection_with_two_addresses_is_captured_once_and_a_port_that_is_used_again_is_another_one() {
    let mut talk = Talk::new(4000);
    talk.login(0)
        .query("SELECT 1")
        .put(Side::Client, &[], |tcp| tcp.fin = true);
    let translated = talk.packets.iter().map(|(at_us, packet)| {
        let mut packet = packet.clone();
        let place = packet.windows(4).position(|part| part == [10, 0, 0, 1]).unwrap();
        packet[place + 2] = 9;
        (at_us + 1, packet)
    });
    let mut both: Vec<_> = talk.packets.iter().cloned().chain(translated).collect();
    both.sort();
    let mut again = Talk::new(4000);
    again.next[0] = 5;
    again.packets.clear();
    again.put(Side::Client, &[], |tcp| tcp.syn = true);
    again.next[0] += 1;
    again.put(Side::Server, &[], |tcp| tcp.syn = true);
    again.next[1] += 1;
    again.login(0).query("SELECT 2");
    both.extend(
        again
            .packets
            .into_iter()
            .map(|(at_us, packet)| (at_us + 1_000_000, packet)),
    );
    let capture = captured(&both);
    assert_eq!(texts(&capture), ["SELECT 1", "SELECT 2"]);
    assert_eq!(
        (capture.header.sessions, problems(&capture)),
        (2, vec![(Problem::SeenTwice, 1)])
    );
}

#[test]
fn link_layers_and_versions_of_ip_are_read() {
    let mut talk = Talk::new(4000);
    talk.login(0).query("SELECT 1");
    let with = |header: &[u8]| -> Vec<(u32, Vec<u8>)> {
        let packet = |(at_us, packet): &(u32, Vec<u8>)| (*at_us, [header, packet].concat());
        talk.packets.iter().map(packet).collect()
    };
    let cooked = [&[0; 14][..], &[8, 0]].concat();
    let cooked_2 = [&[8, 0][..], &[0; 18]].concat();
    let ethernet = [&[2; 12][..], &[8, 0]].concat();
    let tagged = [&[2; 12][..], &[0x81, 0, 0, 5, 8, 0]].concat();
    for (link, header) in [
        (1, ethernet),
        (1, tagged),
        (0, vec![2, 0, 0, 0]),
        (108, vec![0, 0, 0, 2]),
        (113, cooked),
        (276, cooked_2),
        (228, Vec::new()),
    ] {
        let capture = read(&file_of(link, usize::MAX, &with(&header))).unwrap();
        assert_eq!(texts(&capture), ["SELECT 1"], "{link}");
    }
    let step = PacketBuilder::ipv6([1; 16], [2; 16], 64);
    let packet = tcp(step, 4000, 3306, 1, 1, &query("SELECT 6"), |_| {});
    assert_eq!(texts(&captured(&[(0, packet)])), ["SELECT 6"]);
}

/// The same packets as Wireshark writes them, of the second interface of two.
fn pcapng(packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len() as u32).to_le_bytes();
        [&kind.to_le_bytes(), &length, body, &length].concat()
    };
    let section = [&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[255; 8]].concat();
    let nanoseconds = [9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    let mut file = block(0x0a0d_0d0a, &section);
    file.extend(block(1, &[1, 0, 0, 0, 0, 0, 0, 0]));
    file.extend(block(
        1,
        &[&[RAW as u8, 0, 0, 0, 0, 0, 0, 0][..], &nanoseconds].concat(),
    ));
    for (at_us, packet) in packets {
        let time = (u64::from(BEGIN_US) * 1_000_000 + u64::from(*at_us)) * 1000;
        let length = packet.len() as u32;
        let numbers = [1, (time >> 32) as u32, time as u32, length, length];
        let mut body: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        body.extend_from_slice(packet);
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend(block(6, &body));
    }
    file
}

#[test]
fn pcapng_is_read_with_the_clock_of_each_interface() {
    let mut talk = Talk::new(4000);
    talk.login(0).query("SELECT 1");
    let mut file = pcapng(&talk.packets);
    assert_eq!(read(&file).unwrap(), captured(&talk.packets));
    assert_eq!(
        LogKind::Packets.first_time(&file),
        Some(i64::from(BEGIN_US) * 1_000_000)
    );
    file.truncate(file.len() - 5);
    assert_eq!(problems(&read(&file).unwrap()), [(Problem::CutPacket, 1)]);
}

#[test]
fn connections_without_a_command_are_counted() {
    let mut talk = Talk::joined(4000);
    talk.client(b"GET / HTTP/1.1\r\n\r\n")
        .server(b"HTTP/1.1 200 OK\r\n\r\n");
    let mut other = Talk::joined(4001);
    other.query("SELECT 1");
    let capture = captured(&[talk.packets, other.packets].concat());
    let expected = [(Problem::BegunBefore, 1), (Problem::NotUnderstood, 1)];
    assert_eq!(
        (texts(&capture), &problems(&capture)[..]),
        (vec!["SELECT 1".into()], &expected[..])
    );
}

fn busy(is_joined: bool) -> Talk {
    let mut talk = if is_joined { Talk::joined(4000) } else { Talk::new(4000) };
    if !is_joined {
        talk.login(0);
    }
    talk.query(&format!("SELECT '{}'", "x".repeat(600)));
    prepare(&mut talk, "SELECT ?, ?", 2);
    talk.client(&execute(Some(&[1, 1]), b"\x07", b""))
        .server(&rows(5, true))
        .query("SELECT 3");
    talk.client(&[query("SELECT 1"), query("SELECT 2")].concat())
        .server(&rows(1, true))
        .server(&rows(2, true));
    talk.query("SELECT 4");
    talk
}

fn config() -> ProptestConfig {
    let is_all = std::env::var("MYDYNO_TEST_ALL").is_ok_and(|value| value == "1");
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if is_all { 2_000 } else { 60 })
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn segments_in_any_order_cut_anywhere_and_sent_again_give_the_same(
        is_joined in any::<bool>(),
        order in prop::collection::vec(any::<u32>(), 200),
        cuts in prop::collection::vec(1..300usize, 60),
        copies in prop::collection::vec(0..3usize, 200),
    ) {
        let talk = busy(is_joined);
        let expected = captured(&talk.packets);
        prop_assert_eq!(texts(&expected).len(), 6, "{:?}", texts(&expected));
        // Each segment cut in two, the second part with the last bytes of the first one again.
        let mut pieces = Vec::new();
        for (((at_us, packet), (side, sequence, seen, data)), cut) in talk.packets.iter().zip(&talk.sent).zip(&cuts) {
            let cut = *cut % data.len().max(1);
            // Without its beginning, a connection is found where a whole command is in one segment.
            let is_first = is_joined && pieces.is_empty();
            if cut == 0 || is_first {
                pieces.push((*at_us, packet.clone()));
                continue;
            }
            pieces.push((*at_us, segment(4000, *side, *sequence, *seen, &data[..cut], |_| {})));
            let again = cut.saturating_sub(3);
            let sequence = sequence.wrapping_add(again as u32);
            pieces.push((*at_us, segment(4000, *side, sequence, *seen, &data[again..], |_| {})));
        }
        let copied = pieces.iter().zip(&copies).flat_map(|(piece, copies)| std::iter::repeat_n(piece, 1 + copies));
        let mut mixed: Vec<_> = copied.cloned().zip(order.iter().cycle()).collect();
        mixed.sort_by_key(|(_, order)| **order);
        let mixed: Vec<_> = mixed.into_iter().map(|(piece, _)| piece).collect();
        let mut found = captured(&mixed);
        for (event, expected) in found.events.iter_mut().zip(&expected.events) {
            event.at_us = expected.at_us;
        }
        prop_assert_eq!(found.events, expected.events);
    }

    #[test]
    fn where_packets_are_missing_no_statement_is_made_up(
        is_joined in any::<bool>(), dropped in prop::collection::vec(prop::bool::weighted(0.2), 60),
    ) {
        let talk = busy(is_joined);
        let expected = texts(&captured(&talk.packets));
        let kept = talk.packets.into_iter().zip(dropped).filter(|(_, is_dropped)| !is_dropped);
        let kept: Vec<_> = kept.map(|(packet, _)| packet).collect();
        let Ok(capture) = read(&file_of(RAW, usize::MAX, &kept)) else { return Ok(()) };
        let mut left = expected.iter();
        for text in texts(&capture) {
            prop_assert!(left.any(|one| *one == text), "{text} of {expected:?}");
        }
    }

    #[test]
    fn damaged_packets_never_stop_the_reader(
        is_joined in any::<bool>(),
        is_pcapng in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
    ) {
        let packets = busy(is_joined).packets;
        let mut file = if is_pcapng { pcapng(&packets) } else { file_of(RAW, usize::MAX, &packets) };
        for (place, byte) in changes {
            let place = place.index(file.len() - 4) + 4;
            file[place] = byte;
        }
        let _ = read(&file);
    }
}
