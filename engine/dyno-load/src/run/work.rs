//! What a worker's thread does, whatever protocol it speaks: connect, then one load after another, holding in between.

use dyno_core::clock::now_ns;

use super::batch::Batched;
use super::crew::{Edge, End, Report};
use super::failure::Failure;
use super::intervals::Intervals;
use super::poller::Poller;
use super::timeline::Phase;

/// A worker: one epoll loop, its share of the connections and of the plan.
pub trait Work: Batched {
    /// Its intervals.
    fn intervals(&mut self) -> &mut Intervals;

    /// Where its connections are watched.
    fn poller(&mut self) -> &mut Poller;

    /// Makes all connections.
    ///
    /// # Errors
    /// When they cannot be made in time.
    fn connect_all(&mut self) -> Result<(), Failure>;

    /// Makes the connections ready for a load that begins now; think times go on as if the hold had not been.
    fn begin(&mut self, held_ns: Option<u64>);

    /// Whether nothing is left to wait for.
    fn is_done(&self) -> bool;

    /// Hands the interval over.
    fn hand_over(&mut self);

    /// The load goes from one phase to another.
    fn enter_phase(&mut self, phase: Phase);

    /// Called where an interval ends.
    ///
    /// # Errors
    /// When a file of the worker's own cannot be written.
    fn flush_files(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Starts what is due.
    ///
    /// # Errors
    /// When the load cannot go on.
    fn start_due(&mut self, now: u64) -> Result<(), Failure>;

    /// How long the loop may sleep.
    fn wait_ns(&mut self, now: u64) -> u64;

    /// How the load ended, at `now`.
    fn end(&mut self, now: u64) -> End;

    /// Operations under way.
    fn in_flight(&self) -> u64;

    /// Closes the connections.
    fn leave(&mut self);
}

/// Works until there is no further load, and reports how each went.
pub fn work(mut worker: impl Work) {
    if let Err(failure) = connect_then_load(&mut worker) {
        let end = worker.end(now_ns());
        worker.hand_over();
        worker.intervals().report(Report::Failed { failure, end });
    }
}

fn connect_then_load(worker: &mut impl Work) -> Result<(), Failure> {
    worker.connect_all()?;
    worker.intervals().report_ready();
    let mut held_ns = None;
    while let Some(timeline) = worker.intervals().next_timeline() {
        if held_ns.is_some() {
            take_what_came(worker)?;
        }
        worker.intervals().begin(timeline);
        worker.begin(held_ns);
        let (end, last_ns) = load(worker)?;
        held_ns = Some(last_ns);
        worker.intervals().report(Report::Finished(end));
    }
    worker.leave();
    Ok(())
}

/// Sees what came while the load was on hold: connections that the server has closed, and those that are there again.
fn take_what_came(worker: &mut impl Work) -> Result<(), Failure> {
    loop {
        match worker.poller().wait(0)? {
            0 => return Ok(()),
            events => worker.handle_events(events)?,
        }
    }
}

/// One load; how it ended, and when the last answer was read.
fn load(worker: &mut impl Work) -> Result<(End, u64), Failure> {
    while !worker.is_done() {
        let now = now_ns();
        if now >= worker.intervals().boundary_ns && (!cross_boundary(worker, now)? || worker.is_done()) {
            break;
        }
        if worker.intervals().is_cancelled() {
            break;
        }
        worker.start_due(now)?;
        let wait_ns = worker.wait_ns(now);
        let events = worker.poller().wait(wait_ns)?;
        worker.handle_events(events)?;
    }
    let timeline = worker.intervals().timeline;
    if timeline.is_slice && worker.in_flight() > 0 && !worker.intervals().is_cancelled() {
        return Err(Failure::new(format!(
            "{} transactions did not end within {:.1} s of the slice's end; the server hangs, or --grace is too short",
            worker.in_flight(),
            (timeline.hard_stop_ns - timeline.stop_ns) as f64 / 1e9
        )));
    }
    let last_ns = now_ns();
    worker.intervals().mark(Edge::Hold, last_ns);
    let end = worker.end(last_ns);
    worker.hand_over();
    worker.flush_files()?;
    Ok((end, last_ns))
}

/// Hands the finished interval over; false when the hard stop is reached.
#[cold]
fn cross_boundary(worker: &mut impl Work, now: u64) -> Result<bool, Failure> {
    let before = worker.intervals().phase;
    if before == Phase::Drain {
        return Ok(false);
    }
    worker.intervals().mark_boundary(now);
    worker.flush_files()?;
    worker.hand_over();
    worker.intervals().enter(now);
    let phase = worker.intervals().phase;
    if phase == before {
        return Ok(true);
    }
    if before == Phase::Warmup && phase == Phase::Drain {
        // This thread was late enough to skip the whole measurement; its plan is still to be made up for.
        worker.enter_phase(Phase::Measure);
    }
    worker.enter_phase(phase);
    Ok(now < worker.intervals().timeline.hard_stop_ns)
}
