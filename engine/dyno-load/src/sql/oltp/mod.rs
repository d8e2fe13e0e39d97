//! The OLTP family of sysbench: its workloads, and what one transaction draws and sends.

mod options;
mod workloads;

use dyno_core::distribution::{Distribution, Uniform};
use dyno_core::random::{self, Domain, RandomStream};
use dyno_mysql::Value;

pub use options::{OltpOptions, RowText, TableOptions};
pub use workloads::{distance, named, Workload, CATALOGUE};

use super::definition::{Call, Definition, Values};

// One transaction under way: which call comes next, and with which values.
//
// The values are drawn in sysbench's order (table once per group, then ids, then texts) from the operation's own stream,
// so operation k asks the same whatever the thread or connection. A restarted transaction draws anew, as sysbench's does.

const C_BYTES: usize = 119;
const PAD_BYTES: usize = 59;

/// What all transactions of a run share.
#[derive(Debug, Clone)]
pub struct Context {
    /// The workload.
    pub definition: Definition,
    /// Its options.
    pub options: OltpOptions,
    /// Where ids come from.
    pub distribution: Distribution,
    /// Seed of the run.
    pub seed: u64,
    /// Connections of the whole run: some workloads give each its share of the table.
    pub connections: u32,
}

/// A call with its values, ready to be sent.
#[derive(Debug)]
pub struct Request<'a> {
    /// Number of the statement in the definition.
    pub statement: usize,
    /// Number of the table, from 1.
    pub table: u32,
    /// Values in the order of the question marks.
    pub values: &'a [Value<'a>],
}

/// A transaction's progress; 40 bytes a connection.
#[derive(Debug, Clone)]
pub struct Transaction {
    stream: RandomStream,
    number: u64,
    step: u32,
    table: u32,
    id: u32,
    k: u32,
    attempt: u32,
}

impl Transaction {
    /// Operation `number`, before its first call.
    pub fn start(context: &Context, number: u64) -> Self {
        Self {
            stream: RandomStream::of(context.seed, Domain::Operation, number),
            number,
            step: 0,
            table: 1,
            id: 0,
            k: 0,
            attempt: 0,
        }
    }

    /// Back to the first call, with new values.
    pub fn restart(&mut self, context: &Context) {
        let attempt = self.attempt + 1;
        // Attempts of one operation must not repeat another operation's stream: they hash into a seed of their own.
        let seed = context.seed ^ u64::from(attempt).wrapping_mul(0x2545_f491_4f6c_dd1d);
        *self = Self {
            stream: RandomStream::of(seed, Domain::Operation, self.number),
            attempt,
            ..Self::start(context, self.number)
        };
    }

    /// The operation's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The call that comes next; `None` when the transaction is complete.
    #[inline]
    pub fn call<'c>(&self, context: &'c Context) -> Option<&'c Call> {
        context.definition.calls.get(self.step as usize)
    }

    /// Hands the next call with its values to `send`, and moves on. `connection` counts from 0.
    ///
    /// # Panics
    /// When the transaction is complete.
    #[inline]
    pub fn advance<T>(&mut self, context: &Context, connection: u32, send: impl FnOnce(Request<'_>) -> T) -> T {
        let call = context.definition.calls[self.step as usize];
        self.step += 1;
        if call.new_table && context.definition.statements[call.statement].per_table {
            self.table = Uniform.draw(&mut self.stream, 1, context.options.table.tables);
        }
        let (statement, table) = (call.statement, self.table);
        let request = |values: &[Value<'_>]| {
            send(Request {
                statement,
                table,
                values,
            })
        };
        match call.values {
            Values::Nothing => request(&[]),
            Values::Id => request(&[Value::Int(i64::from(self.draw_id(context)))]),
            Values::Range => {
                let first = i64::from(self.draw_id(context));
                request(&[
                    Value::Int(first),
                    Value::Int(first + i64::from(context.options.range_size) - 1),
                ])
            }
            Values::TextAndId => {
                let mut c = [0; C_BYTES];
                context.options.table.row_text.fill(&mut self.stream, &mut c);
                request(&[Value::Bytes(&c), Value::Int(i64::from(self.draw_id(context)))])
            }
            Values::DeletedId => {
                self.id = self.draw_id(context);
                self.k = self.draw_id(context);
                request(&[Value::Int(i64::from(self.id))])
            }
            Values::DeletedRow => {
                let (id, k) = (i64::from(self.id), i64::from(self.k));
                self.with_row(context.options.table.row_text, |c, pad| {
                    request(&[Value::Int(id), Value::Int(k), Value::Bytes(c), Value::Bytes(pad)])
                })
            }
            Values::NewRow => {
                let k = i64::from(self.draw_id(context));
                let id = if context.options.table.auto_inc {
                    0
                } else {
                    unique_id(context.seed, self.number)
                };
                self.with_row(context.options.table.row_text, |c, pad| {
                    request(&[Value::Int(id), Value::Int(k), Value::Bytes(c), Value::Bytes(pad)])
                })
            }
            Values::Points | Values::Ranges => {
                let list = self.draw_share(context, connection, call.values == Values::Ranges);
                request(&list)
            }
        }
    }

    #[inline]
    fn draw_id(&mut self, context: &Context) -> u32 {
        context
            .distribution
            .draw(&mut self.stream, 1, context.options.table.table_size)
    }

    #[inline]
    fn with_row<T>(&mut self, text: RowText, send: impl FnOnce(&[u8], &[u8]) -> T) -> T {
        let (mut c, mut pad) = ([0; C_BYTES], [0; PAD_BYTES]);
        text.fill(&mut self.stream, &mut c);
        text.fill(&mut self.stream, &mut pad);
        send(&c, &pad)
    }

    /// Points or ranges in the connection's share: sysbench cuts the table's length into as many shares as threads.
    fn draw_share(&mut self, context: &Context, connection: u32, ranges: bool) -> ShareValues {
        let share = f64::from(context.options.table.table_size) / f64::from(context.connections.max(1));
        let low = share * f64::from(connection % context.connections.max(1));
        let (low, high) = (low as u32, (low + share) as u32);
        let mut list = ShareValues::new();
        let count = if ranges {
            context.options.number_of_ranges
        } else {
            context.options.random_points
        };
        for _ in 0..count {
            let value = i64::from(context.distribution.draw(&mut self.stream, low, high));
            list.push(Value::Int(value));
            if ranges {
                list.push(Value::Int(value + i64::from(context.options.delta)));
            }
        }
        list
    }
}

/// 64 values are on the stack; a longer list than any default allocates.
type ShareValues = smallvec::SmallVec<[Value<'static>; 64]>;

/// A 32-bit number that no other operation of the run has, in no order: sb_rand_unique of sysbench 1.0.20, from the
/// operation's number instead of a shared counter (permutation by quadratic residues: preshing.com/20121224).
fn unique_id(seed: u64, number: u64) -> i64 {
    let index = permute(permute(seed as u32).wrapping_add(0x682f_0161)).wrapping_add(unique_place(number));
    let offset = permute(permute((seed >> 32) as u32).wrapping_add(0x4679_0905));
    let unique = permute(permute(index).wrapping_add(offset) ^ 0x5bf0_3635);
    i64::from(unique) - (1 << 31)
}

/// Where an operation stands among the 2^32 unique numbers: warm-up and washout in the upper half, and streams that
/// follow one another as far apart as their number allows (multiples of the golden ratio: Knuth, TAOCP 3, section 6.4).
fn unique_place(number: u64) -> u32 {
    let half = if number & random::WARMUP_BIT == 0 { 0 } else { 1 << 31 };
    let stream = random::stream_of(number).wrapping_mul(0x9e37_79b9) & 0x7fff_ffff;
    ((random::count_of(number) as u32).wrapping_add(stream) & 0x7fff_ffff) ^ half
}

fn permute(value: u32) -> u32 {
    const PRIME: u32 = 4_294_967_291;
    if value >= PRIME {
        return value;
    }
    let residue = (u64::from(value) * u64::from(value) % u64::from(PRIME)) as u32;
    if value <= PRIME / 2 {
        residue
    } else {
        PRIME - residue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::oltp as workload;
    use dyno_core::distribution::Parameters;

    fn with(change: impl FnOnce(&mut OltpOptions)) -> OltpOptions {
        let mut options = OltpOptions::default();
        change(&mut options);
        options
    }

    fn context(name: &str, options: OltpOptions) -> Context {
        Context {
            definition: workload::named(name).unwrap().define(&options),
            options,
            distribution: Distribution::named("special", &Parameters::default()).unwrap(),
            seed: 4,
            connections: 8,
        }
    }

    /// Every call of one operation, as text.
    fn transcript(context: &Context, mut transaction: Transaction, connection: u32) -> Vec<String> {
        let mut lines = Vec::new();
        while transaction.call(context).is_some() {
            lines.push(transaction.advance(context, connection, |request| {
                format!("{} {} {:?}", request.statement, request.table, request.values)
            }));
        }
        lines
    }

    #[test]
    fn an_operation_asks_the_same_on_any_connection_and_another_when_restarted() {
        let context = context("oltp_read_write", with(|options| options.table.tables = 9));
        let first = transcript(&context, Transaction::start(&context, 77), 0);
        assert_eq!(first, transcript(&context, Transaction::start(&context, 77), 5));
        assert_ne!(first, transcript(&context, Transaction::start(&context, 78), 0));
        let mut again = Transaction::start(&context, 77);
        again.restart(&context);
        assert_ne!(first, transcript(&context, again.clone(), 0));
        assert_eq!(again.number(), 77);
    }

    #[test]
    fn a_group_stays_on_one_table_and_the_insert_restores_the_deleted_row() {
        let options = with(|options| (options.table.tables, options.delete_inserts) = (50, 2));
        let context = context("oltp_write_only", options);
        let mut transaction = Transaction::start(&context, 1);
        let mut seen = Vec::new();
        while transaction.call(&context).is_some() {
            transaction.advance(&context, 0, |request| {
                let id = match request.values.first() {
                    Some(Value::Int(id)) => *id,
                    _ => -1,
                };
                seen.push((
                    context.definition.statements[request.statement].kind.name(),
                    request.table,
                    id,
                ));
            });
        }
        let pairs: Vec<_> = seen
            .iter()
            .filter(|call| matches!(call.0, "delete" | "insert"))
            .collect();
        assert_eq!(pairs.len(), 4);
        assert!(pairs.iter().all(|call| call.1 == pairs[0].1), "{pairs:?}");
        assert_eq!((pairs[0].2, pairs[2].2), (pairs[1].2, pairs[3].2));
    }

    #[test]
    fn unique_ids_do_not_repeat() {
        let mut ids: Vec<i64> = (0..200_000)
            .map(|number| unique_id(0x1234_5678_9abc_def0, number))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 200_000);
        assert!(ids[0] >= i64::from(i32::MIN) && ids[199_999] <= i64::from(i32::MAX));
    }

    #[test]
    fn unique_ids_of_washouts_and_streams_do_not_meet() {
        let mut ids = Vec::new();
        for stream in 0..40 {
            for is_measured in [true, false] {
                let base = random::first_number(stream, is_measured);
                ids.extend((0..5_000).map(|count| unique_id(1, base + count)));
            }
        }
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }

    #[test]
    fn shares_of_the_table_follow_the_connection() {
        let context = context("select_random_ranges", with(|options| options.table.table_size = 800));
        let mut transaction = Transaction::start(&context, 3);
        transaction.advance(&context, 2, |request| {
            assert_eq!(request.values.len(), 20);
            for pair in request.values.chunks(2) {
                let (Value::Int(low), Value::Int(high)) = (&pair[0], &pair[1]) else {
                    panic!("not integers")
                };
                assert!((200..=300).contains(low) && *high == low + 5);
            }
        });
    }
}
