"""Operational laws of a queue with several servers: Little's law, utilisation, and whether counts agree with them.

The queue is that of a planned load: transactions become due, wait for a free connection, and are then in service on it
until the last answer. Little's law (Operations Research 9 (1961)) holds for any such queue without assumptions on
distributions: mean number = throughput × mean time, for the system, for its waiting line and for the connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

from mydyno.language import tr

TOLERANCE = 0.05
"""Tolerance as a share of the connections: transactions begin or end outside of the counted time."""
DEVIATIONS = 4.0
"""Standard deviations of a Poisson count beyond which more transactions ended than can have been due."""
END_DEVIATIONS = 2.0
"""Standard errors of what the ends of intervals displace beyond which a closed loop contradicts Little's law."""


@dataclass(frozen=True, slots=True)
class Queue:
    """What was counted of one planned load; times are means."""

    connections: int
    rate_per_s: float
    """Offered, by the plan."""
    transactions: int
    """Ended in the counted time."""
    length_s: float
    response_s: float
    """From when it was due to the last answer."""
    service_s: float
    """From its first statement to the last answer."""

    @property
    def throughput_per_s(self) -> float:
        """Transactions that ended per second."""
        return self.transactions / self.length_s

    @property
    def in_system(self) -> float:
        """Mean number that are due and have not ended."""
        return self.throughput_per_s * self.response_s

    @property
    def in_service(self) -> float:
        """Mean number of busy connections."""
        return self.throughput_per_s * self.service_s

    @property
    def waiting(self) -> float:
        """Mean number that are due and have no connection yet."""
        return self.in_system - self.in_service

    @property
    def utilisation(self) -> float:
        """Share of the connections that is busy."""
        return self.in_service / self.connections

    def disagreement(self) -> str:
        """Why the counts cannot all be right, as a clause; empty if they agree.

        Known independently of the times: the number of connections, and how many transactions were due.
        """
        due = self.rate_per_s * self.length_s
        if self.response_s < self.service_s:
            return tr("the mean response time is shorter than the mean service time, which is a part of it")
        if self.utilisation > 1.0 + TOLERANCE:
            return tr(
                "throughput × service time is {busy:.3g} busy connections, but there are {connections}",
                busy=self.in_service,
                connections=self.connections,
            )
        if self.transactions > due + DEVIATIONS * sqrt(due) + self.connections:
            return tr(
                "{ended:,} transactions ended, but only about {due:,.0f} were due", ended=self.transactions, due=due
            )
        return ""


@dataclass(frozen=True, slots=True)
class Interval:
    """What was counted of a closed loop in one interval, e.g. a slice."""

    transactions: int
    """Ended in it."""
    length_s: float
    response_s: float
    """Mean over these."""
    long_response_s: float
    """The 99th percentile, or the mean where that is all that is known."""

    @property
    def in_system(self) -> float:
        """Mean number of transactions under way: throughput × response time."""
        return self.transactions * self.response_s / self.length_s


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """A closed loop: each connection starts its next transaction when the last has ended, or some time after that.

    By Little's law, connections = throughput × (response time + time between transactions).
    """

    connections: int
    intervals: Sequence[Interval]
    thinks: bool
    """Whether connections may be idle between transactions (think times, a script of the user's own)."""

    @property
    def length_s(self) -> float:
        """Length of all intervals together."""
        return sum(one.length_s for one in self.intervals)

    @property
    def transactions(self) -> int:
        """Transactions that ended in any of the intervals."""
        return sum(one.transactions for one in self.intervals)

    @property
    def throughput_per_s(self) -> float:
        """Transactions that ended per second."""
        return self.transactions / self.length_s

    @property
    def response_s(self) -> float:
        """Mean response time; 0 without any transaction."""
        total_s = sum(one.response_s * one.transactions for one in self.intervals)
        return total_s / self.transactions if self.transactions else 0.0

    @property
    def in_system(self) -> float:
        """Mean number of transactions under way: throughput × response time."""
        return self.throughput_per_s * self.response_s

    @property
    def between_s(self) -> float:
        """Mean time of a connection between two transactions, by the law; negative within the resolution."""
        return self.connections / self.throughput_per_s - self.response_s if self.transactions else inf

    @property
    def middle(self) -> Interval:
        """The interval with the median number under way: a stall at the end of one interval says nothing about counts.

        Transactions of such a stall end after the interval, and are counted nowhere.
        """
        ordered = sorted(self.intervals, key=lambda one: one.in_system)
        return ordered[len(ordered) // 2]

    @property
    def resolution(self) -> float:
        """How far the median of the counted numbers may be from the true one, in transactions under way.

        A transaction counts as a whole in the interval in which it ends. At each end of an interval this displaces, of
        every connection, up to a long response, or the mean time from one end of a transaction to the next; of all
        connections at once, as what delays one often delays all. Intervals are independent.
        """
        one = self.middle
        cycle_s = self.connections * one.length_s / one.transactions if one.transactions else one.length_s
        displaced = min(1.0, max(one.long_response_s, cycle_s) / one.length_s)
        return self.connections * (TOLERANCE + END_DEVIATIONS * displaced / sqrt(len(self.intervals)))

    def disagreement(self) -> str:
        """Why the counts cannot all be right, as a clause; empty if they agree within their resolution."""
        one = self.middle
        facts = {
            "rate": one.transactions / one.length_s,
            "time": 1000.0 * one.response_s,
            "under_way": one.in_system,
            "connections": self.connections,
            "resolution": self.resolution,
        }
        if one.in_system > self.connections + self.resolution:
            return tr(
                "{rate:.4g} transactions/s × {time:.4g} ms = {under_way:.3g} under way, but there are {connections} "
                "connections (resolution ±{resolution:.2g})",
                **facts,
            )
        if not self.thinks and one.in_system < self.connections - self.resolution:
            return tr(
                "{rate:.4g} transactions/s × {time:.4g} ms = {under_way:.3g} under way, but {connections} connections "
                "always have one (resolution ±{resolution:.2g}); response times lack the transactions that had not "
                "ended when their interval did, or transactions were not counted",
                **facts,
            )
        return ""
