//! The commands of a connection, and their replies.
//!
//! A connection that began before the capture, or of which packets are missing, is understood again from the next command
//! on: a packet with sequence number 0 at the start of a segment. The server's side is then read from the reply to it.

use std::collections::VecDeque;

use dyno_mysql::constants::{capability, command};
use dyno_mysql::{Compression, Greeting};

use super::login::{answer, change, recognise, Answer, Login, Recognised, ZLIB, ZSTD};
use super::parameters::Statements;
use super::reply::{End, Kind, Reply};
use super::stream::{Intake, Packet, Place, Side};
use crate::assembler::Assembler;
use crate::class;
use crate::event::{Raw, RawAction, Statement};
use crate::problems::Problem;
use crate::timestamp::Micros;

/// How much is kept of a packet of the server: greetings, and the ends of results.
const MOST_OF_SERVER: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Greeting,
    Login,
    Commands,
    /// Encrypted, or of replication: nothing more is captured.
    LeftOut,
}

/// What a command does when it has succeeded.
#[derive(Debug)]
enum Effect {
    None,
    /// These statements in turn.
    Statements(Vec<Vec<u8>>),
    Schema(String),
    Reset {
        user: Option<String>,
        schema: Option<String>,
        charset: Option<&'static str>,
    },
    Prepare(u64),
}

/// A command without its whole reply.
#[derive(Debug)]
struct Pending {
    place: Place,
    effect: Effect,
    reply: Reply,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    number: u64,
    /// The client's address.
    host: String,
    phase: Phase,
    intake: [Intake; 2],
    /// The capabilities that the server offers, all where they are unknown; those that both sides use.
    offered: u64,
    agreed: Option<u64>,
    /// Until it has succeeded.
    login: Option<(Login, Place)>,
    /// The character set that it has logged in with, and whether the capture is yet to have it.
    charset: Option<&'static str>,
    is_charset_due: bool,
    statements: Statements,
    pending: VecDeque<Pending>,
    /// Of the server's last packet.
    last_sequence: u8,
    is_sending_file: bool,
    /// Where bytes were that nothing is known of, until a command is.
    unknown: Option<Place>,
}

impl Session {
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn new(number: u64, host: String) -> Self {
        Self {
            number,
            host,
            phase: Phase::Commands,
            intake: [Intake::new(usize::MAX, None), Intake::new(MOST_OF_SERVER, None)],
            offered: u64::MAX,
            agreed: None,
            login: None,
            charset: None,
            is_charset_due: false,
            statements: Statements::default(),
            pending: VecDeque::new(),
            last_sequence: 0,
            is_sending_file: false,
            unknown: None,
        }
    }

    /// The connection begins with what follows.
    pub fn begin(&mut self, side: Side) {
        self.phase = Phase::Greeting;
        self.intake[side as usize].is_lost = false;
    }

    /// Takes what one side has sent.
    pub fn data(&mut self, side: Side, data: &[u8], place: Place, assembler: &mut Assembler) {
        let is_lost = self.phase != Phase::LeftOut && self.intake[side as usize].is_lost;
        if is_lost && side == Side::Client {
            self.find(data, place, assembler);
        }
        if self.phase == Phase::LeftOut || self.intake[side as usize].is_lost {
            return;
        }
        // The client begins a command: what the server has replied to the login is lost.
        let is_login = matches!(self.phase, Phase::Greeting | Phase::Login) && side == Side::Client;
        if is_login && self.intake[0].is_between_packets() && data.get(3) == Some(&0) {
            self.enter_commands();
        }
        let Ok(plain) = self.intake[side as usize].plain(data) else {
            return self.lose(side, assembler);
        };
        let mut rest = &*plain;
        while let Some(packet) = self.intake[side as usize].next(&mut rest, place) {
            match side {
                Side::Client => self.of_client(packet, assembler),
                Side::Server => self.of_server(packet, assembler),
            }
            if self.phase == Phase::LeftOut || self.intake[side as usize].is_lost {
                return;
            }
        }
    }

    /// Finds a command of a client that was lost.
    fn find(&mut self, data: &[u8], place: Place, assembler: &mut Assembler) {
        let is_compressed = self.intake[0].is_compressed();
        match recognise(data, is_compressed) {
            Some(Recognised::Tls) => return self.leave_out(Problem::Encrypted, place, assembler),
            Some(Recognised::Compressed(compression)) if !is_compressed => self.compress(Some(compression)),
            Some(_) => {}
            None => {
                self.unknown.get_or_insert(place);
                return;
            }
        }
        self.intake[0].is_lost = false;
        self.unknown = None;
    }

    fn compress(&mut self, compression: Option<Compression>) {
        self.intake.iter_mut().for_each(|intake| intake.compress(compression));
    }

    /// Bytes are missing before those that follow.
    pub fn lost(&mut self, side: Side, problem: Problem, place: Place, assembler: &mut Assembler) {
        if self.phase != Phase::LeftOut {
            assembler.problems.count(problem, place.number);
            self.lose(side, assembler);
        }
    }

    /// What follows does not continue what came before.
    fn lose(&mut self, side: Side, assembler: &mut Assembler) {
        match self.phase {
            Phase::Greeting | Phase::Login if side == Side::Server => self.phase = Phase::Login,
            Phase::Greeting | Phase::Login => self.enter_commands(),
            _ => {}
        }
        self.flush(assembler);
        // A command that is lost has a reply that would be taken for that of the next one.
        for side in [side, Side::Server] {
            self.intake[side as usize].lose();
        }
        self.is_sending_file = false;
    }

    /// The connection has ended.
    pub fn end(&mut self, place: Place, assembler: &mut Assembler) {
        self.finish(assembler);
        if self.phase == Phase::Commands {
            self.push(place, RawAction::Quit, assembler);
        }
        self.phase = Phase::LeftOut;
    }

    /// Nothing more was captured.
    pub fn finish(&mut self, assembler: &mut Assembler) {
        self.flush(assembler);
        if let Some(place) = self.unknown.take() {
            assembler.problems.count(Problem::NotUnderstood, place.number);
        }
    }

    fn leave_out(&mut self, problem: Problem, place: Place, assembler: &mut Assembler) {
        self.flush(assembler);
        assembler.problems.count(problem, place.number);
        self.phase = Phase::LeftOut;
    }

    /// Passes on what has no whole reply.
    fn flush(&mut self, assembler: &mut Assembler) {
        while let Some(pending) = self.pending.pop_front() {
            self.complete(pending, None, assembler);
        }
    }

    fn enter_commands(&mut self) {
        self.phase = Phase::Commands;
        let Some(agreed) = self.agreed else {
            return;
        };
        self.statements.has_attributes = Some(agreed & capability::QUERY_ATTRIBUTES != 0);
        self.compress(match agreed {
            _ if agreed & capability::COMPRESS != 0 => Some(ZLIB),
            _ if agreed & capability::ZSTD_COMPRESSION != 0 => Some(ZSTD),
            _ => None,
        });
    }

    fn push(&mut self, place: Place, action: RawAction, assembler: &mut Assembler) {
        if let Some((login, begun)) = self.login.take() {
            let user = Some(format!("{}@{}", login.user, self.host));
            let schema = login.schema;
            self.push(begun, RawAction::Connect { user, schema }, assembler);
        }
        if let (RawAction::Statement { statement, .. }, Some(charset), true) =
            (&action, self.charset, self.is_charset_due)
        {
            let sets_it = class::charset(&statement.text).is_some();
            // A replay's sessions have utf8mb4; stated, it says that other bytes are meant.
            let is_other = charset != "utf8mb4" || std::str::from_utf8(&statement.text).is_err();
            self.is_charset_due = !sets_it && !is_other;
            if is_other && !sets_it {
                let statement = Statement::set_names(charset);
                let is_execution = false;
                self.push(
                    place,
                    RawAction::Statement {
                        statement,
                        is_execution,
                    },
                    assembler,
                );
            }
        }
        assembler.push(Raw {
            at: Some(place.at),
            is_shared_second: false,
            connection_id: self.number,
            user: None,
            line: place.number,
            action,
        });
    }

    fn of_server(&mut self, packet: Packet, assembler: &mut Assembler) {
        let first = packet.payload.first().copied();
        match (self.phase, first) {
            (Phase::Greeting | Phase::Login, Some(0xff)) => {
                self.leave_out(Problem::RefusedConnection, packet.place, assembler);
            }
            (Phase::Greeting, _) => {
                if let Ok(greeting) = Greeting::parse(&packet.payload) {
                    self.offered = greeting.server.capabilities;
                    assembler.server.get_or_insert(greeting.server.version);
                }
                self.phase = Phase::Login;
            }
            (Phase::Login, Some(0)) => self.enter_commands(),
            (Phase::Commands, _) => self.of_reply(&packet, assembler),
            _ => {}
        }
    }

    fn of_reply(&mut self, packet: &Packet, assembler: &mut Assembler) {
        let is_first = packet.sequence == 1 && self.last_sequence != 0;
        self.last_sequence = packet.sequence;
        // The end of the reply before was not recognised.
        if is_first && self.pending.len() > 1 && self.pending[0].reply.begun.is_some() {
            if let Some(pending) = self.pending.pop_front() {
                self.complete(pending, None, assembler);
            }
        }
        let Some(pending) = self.pending.front_mut() else {
            return;
        };
        if pending.reply.begun.is_none() && packet.sequence != 1 && !self.intake[1].is_compressed() {
            return;
        }
        let end = pending.reply.packet(packet);
        self.is_sending_file = pending.reply.wants_file;
        if let Some(escapes) = pending.reply.escapes {
            self.statements.escapes = escapes;
        }
        if end.is_some() {
            if let Some(pending) = self.pending.pop_front() {
                self.complete(pending, end, assembler);
            }
        }
    }

    /// Passes on what a command has done; `end` is none where its reply is not known to the end.
    fn complete(&mut self, pending: Pending, end: Option<End>, assembler: &mut Assembler) {
        let Pending { place, effect, reply } = pending;
        let has_failed = end == Some(End::Error);
        match effect {
            Effect::Statements(mut texts) => {
                if has_failed {
                    // None after the one that has failed was executed.
                    texts.truncate(reply.results + 1);
                }
                let us = |begun: Micros| u64::try_from(begun - place.at).unwrap_or(0);
                let mut duration_us = reply.begun.map(us);
                let rows = end.filter(|_| texts.len() == 1).map(|_| reply.rows);
                for text in texts {
                    let statement = Statement {
                        text,
                        duration_us: duration_us.take(),
                        rows,
                        ..Statement::default()
                    };
                    let action = RawAction::Statement {
                        statement,
                        is_execution: false,
                    };
                    self.push(place, action, assembler);
                }
            }
            Effect::Schema(schema) if !has_failed => self.push(place, RawAction::Schema(schema), assembler),
            Effect::Reset { user, schema, charset } if !has_failed => {
                (self.charset, self.is_charset_due) = (charset, true);
                self.push(place, RawAction::Reset { user, schema }, assembler);
            }
            Effect::Prepare(own) => self.statements.reply(own, reply.prepared),
            Effect::None | Effect::Schema(_) | Effect::Reset { .. } => {}
        }
    }

    fn of_client(&mut self, packet: Packet, assembler: &mut Assembler) {
        if self.is_sending_file {
            self.is_sending_file = packet.length > 0;
            return;
        }
        match (self.phase, packet.sequence) {
            (Phase::Greeting | Phase::Login, _) if self.login.is_none() => match answer(&packet.payload) {
                Ok(Answer::Tls) => self.leave_out(Problem::Encrypted, packet.place, assembler),
                Ok(Answer::Login(login)) => {
                    self.agreed = Some(self.offered & login.capabilities);
                    (self.charset, self.is_charset_due) = (login.charset, true);
                    self.login = Some((login, packet.place));
                }
                Err(_) => self.leave_out(Problem::NotUnderstood, packet.place, assembler),
            },
            (Phase::Commands, 0) => self.command(packet, assembler),
            _ => {}
        }
    }

    fn command(&mut self, packet: Packet, assembler: &mut Assembler) {
        let Packet { place, payload, .. } = packet;
        if std::mem::take(&mut self.intake[1].is_lost) {
            self.last_sequence = u8::MAX;
        }
        let Some(number) = payload.first().copied() else {
            return;
        };
        let rest = &payload[1..];
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (kind, effect) = match number {
            command::QUERY => match self.statements.texts(rest) {
                Some(texts) => (Kind::Results, Effect::Statements(texts)),
                None => return self.not_known(place, assembler),
            },
            command::STMT_PREPARE => (Kind::Prepared, Effect::Prepare(self.statements.prepare(rest))),
            command::STMT_EXECUTE | command::STMT_BULK_EXECUTE => match self.statements.executed(number, rest) {
                Some(texts) => (Kind::Results, Effect::Statements(texts)),
                None => {
                    assembler.problems.count(Problem::PreparedBefore, place.number);
                    (Kind::Results, Effect::None)
                }
            },
            command::STMT_SEND_LONG_DATA => return self.statements.long_data(rest),
            command::STMT_CLOSE => return self.statements.close(rest),
            command::STMT_RESET => {
                self.statements.reset(rest);
                (Kind::Single, Effect::None)
            }
            command::INIT_DB => (Kind::Single, Effect::Schema(text(rest))),
            command::CHANGE_USER | command::RESET_CONNECTION => {
                self.statements.clear();
                let changed = (number == command::CHANGE_USER)
                    .then(|| change(rest))
                    .and_then(Result::ok);
                let (user, schema, charset) = match changed {
                    Some((user, schema, charset)) => (Some(format!("{user}@{}", self.host)), schema, charset),
                    None => (None, None, self.charset),
                };
                (Kind::Login, Effect::Reset { user, schema, charset })
            }
            command::QUIT => return self.end(place, assembler),
            command::PING | command::SET_OPTION | command::STATISTICS => (Kind::Single, Effect::None),
            command::FIELD_LIST | command::STMT_FETCH => (Kind::UntilEnd, Effect::None),
            command::BINLOG_DUMP | command::BINLOG_DUMP_GTID | command::TABLE_DUMP | command::CLONE => {
                return self.leave_out(Problem::Administration, place, assembler);
            }
            command::CREATE_DB..=command::DEBUG | command::REGISTER_REPLICA => {
                assembler.problems.count(Problem::Administration, place.number);
                let is_list = number == command::PROCESS_INFO;
                (if is_list { Kind::Results } else { Kind::Single }, Effect::None)
            }
            _ => return self.not_known(place, assembler),
        };
        let reply = Reply::new(kind);
        self.pending.push_back(Pending { place, effect, reply });
    }

    fn not_known(&mut self, place: Place, assembler: &mut Assembler) {
        assembler.problems.count(Problem::UnknownCommand, place.number);
        self.lose(Side::Client, assembler);
    }
}
