//! How far another host's clock is from ours, from requests and replies over the pipe (Cristian, "Probabilistic clock
//! synchronization", 1989).
//!
//! The other host read its clock between the request and the arrival of its reply, so the clock's offset is known to half of the
//! round trip: that is a bound, not a guess, and the shortest round trip has the least.

use std::sync::atomic::AtomicBool;

use dyno_core::clock::now_ns;

use super::peer::{Peer, Shippable};
use super::protocol::{Answer, Order};

/// Requests for one estimate.
pub const ROUNDS: usize = 32;

/// One request and its reply.
#[derive(Debug, Clone, Copy)]
struct Round {
    sent_ns: u64,
    theirs_ns: u64,
    received_ns: u64,
}

/// An estimate of another clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// What is to be added to our time for theirs.
    pub offset_ns: i64,
    /// How wrong the offset can be at most.
    pub error_ns: u64,
}

impl Clock {
    /// Requests the time of an agent [`ROUNDS`] times.
    ///
    /// # Errors
    /// When the agent is gone, does not reply until `deadline_ns`, or `interrupted` is set meanwhile.
    pub fn measure<E: Shippable>(peer: &mut Peer, deadline_ns: u64, interrupted: &AtomicBool) -> Result<Self, String> {
        let mut best: Option<Round> = None;
        for _ in 0..ROUNDS {
            let sent_ns = now_ns();
            peer.send(&Order::Ping, deadline_ns)?;
            let theirs_ns = match peer.expect::<E>(deadline_ns, interrupted)? {
                Answer::Pong { now_ns } => now_ns,
                other => return Err(super::peer::out_of_turn(&other)),
            };
            let round = Round {
                sent_ns,
                theirs_ns,
                received_ns: now_ns(),
            };
            if best.is_none_or(|best| round.trip_ns() < best.trip_ns()) {
                best = Some(round);
            }
        }
        best.map(Round::clock).ok_or_else(|| "its clock was not read".into())
    }

    /// Their time in ours.
    pub fn ours(&self, theirs_ns: u64) -> u64 {
        theirs_ns.saturating_add_signed(-self.offset_ns)
    }

    /// Our time in theirs.
    pub fn theirs(&self, ours_ns: u64) -> u64 {
        ours_ns.saturating_add_signed(self.offset_ns)
    }
}

impl Round {
    fn trip_ns(&self) -> u64 {
        self.received_ns - self.sent_ns
    }

    fn clock(self) -> Clock {
        let middle_ns = self.sent_ns + self.trip_ns() / 2;
        Clock {
            offset_ns: self.theirs_ns.wrapping_sub(middle_ns) as i64,
            error_ns: self.trip_ns().div_ceil(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_true_offset_is_within_the_bound_whatever_the_ways_take(
            offset_ns in -1_000_000_000_000i64..1_000_000_000_000, there_ns in 0u64..1_000_000, back_ns in 0u64..1_000_000,
        ) {
            let sent_ns = 5_000_000_000_000u64;
            let theirs_ns = (sent_ns + there_ns).saturating_add_signed(offset_ns);
            let clock = Round { sent_ns, theirs_ns, received_ns: sent_ns + there_ns + back_ns }.clock();
            prop_assert!(clock.offset_ns.abs_diff(offset_ns) <= clock.error_ns, "{clock:?}");
            prop_assert_eq!(clock.error_ns, (there_ns + back_ns).div_ceil(2));
            prop_assert!(clock.theirs(sent_ns + there_ns).abs_diff(theirs_ns) <= clock.error_ns);
        }
    }
}
