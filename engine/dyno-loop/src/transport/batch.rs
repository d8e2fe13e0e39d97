//! What a worker has received and not yet looked into: the answers of many connections, one after another.
//!
//! A worker reads all that is there, then looks into the answers, then writes what comes next. Taking connections one
//! by one through all three would bring the code of each round into the processor's caches anew for every connection,
//! after the kernel's has driven it out: most of what a load engine costs above a bare loop.

/// Room that each read is given; longer answers are read in several.
const READ_BYTES: usize = 64 * 1024;
/// Room for the answers of one batch beside the last read's.
const SPARE_BYTES: usize = 64 * 1024;
/// Connections in a batch: the last one's next statement waits until all answers of the batch are looked into.
const CONNECTIONS: usize = 64;
/// The same in an open loop, where what falls due meanwhile would wait too, and that is the load's own lag.
const CONNECTIONS_OF_AN_OPEN_LOOP: usize = 4;

/// The bytes read from one connection.
#[derive(Debug, Clone, Copy)]
pub struct Chunk {
    /// Its index in the worker.
    pub index: usize,
    /// When they were read.
    pub at_ns: u64,
    start: usize,
    end: usize,
}

/// The answers of one round. Allocates nothing once made.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    taken: Vec<Chunk>,
    used: usize,
    most: usize,
}

impl Batch {
    /// An empty batch with its memory.
    pub fn new(open_loop: bool) -> Self {
        let most = if open_loop {
            CONNECTIONS_OF_AN_OPEN_LOOP
        } else {
            CONNECTIONS
        };
        Self {
            bytes: vec![0; SPARE_BYTES + READ_BYTES],
            taken: Vec::with_capacity(most),
            used: 0,
            most,
        }
    }

    /// Makes it empty again.
    #[inline]
    pub fn clear(&mut self) {
        self.taken.clear();
        self.used = 0;
    }

    /// Whether one more connection may be read.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.taken.len() < self.most && self.used <= SPARE_BYTES
    }

    /// Where the next connection's bytes go.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.used..self.used + READ_BYTES]
    }

    /// Notes that a connection's `count` bytes are in [`Batch::room`].
    #[inline]
    pub fn took(&mut self, index: usize, count: usize, at_ns: u64) {
        let (start, end) = (self.used, self.used + count);
        self.used = end;
        self.taken.push(Chunk {
            index,
            at_ns,
            start,
            end,
        });
    }

    /// The connections in the order in which they were read, each with the index of the one after it (the last one with
    /// its own).
    #[inline]
    pub fn taken_with_next(&self) -> impl Iterator<Item = (&Chunk, usize)> {
        let next = self.taken.iter().skip(1).chain(self.taken.last());
        self.taken.iter().zip(next.map(|taken| taken.index))
    }

    /// One connection's bytes.
    #[inline]
    pub fn bytes(&self, taken: &Chunk) -> &[u8] {
        &self.bytes[taken.start..taken.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_keeps_its_own_bytes() {
        let mut batch = Batch::new(false);
        for (index, text) in [(7, "first"), (3, "second")] {
            batch.room()[..text.len()].copy_from_slice(text.as_bytes());
            batch.took(index, text.len(), index as u64 * 10);
        }
        let seen: Vec<_> = batch
            .taken
            .iter()
            .map(|taken| (taken.index, taken.at_ns, batch.bytes(taken)))
            .collect();
        assert_eq!(seen, [(7, 70, &b"first"[..]), (3, 30, &b"second"[..])]);
        let next: Vec<_> = batch
            .taken_with_next()
            .map(|(taken, next)| (taken.index, next))
            .collect();
        assert_eq!(next, [(7, 3), (3, 3)]);
        batch.clear();
        assert!(batch.taken.is_empty() && batch.has_room());
    }

    #[test]
    fn it_is_full_by_connections_or_by_bytes_and_a_read_has_its_room_even_then() {
        let mut small = Batch::new(false);
        while small.has_room() {
            assert_eq!(small.room().len(), READ_BYTES);
            small.took(0, 1, 0);
        }
        assert_eq!(small.taken.len(), CONNECTIONS);
        let mut paced = Batch::new(true);
        while paced.has_room() {
            paced.took(0, 1, 0);
        }
        assert_eq!(paced.taken.len(), CONNECTIONS_OF_AN_OPEN_LOOP);
        let mut large = Batch::new(false);
        while large.has_room() {
            assert_eq!(large.room().len(), READ_BYTES);
            large.took(0, READ_BYTES, 0);
        }
        assert_eq!(large.taken.len(), 2);
    }
}
