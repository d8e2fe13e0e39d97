"""Operational laws of a queue with several servers: Little's law, utilisation, and whether counts agree with them.

The queue is that of a planned load: transactions become due, wait for a free connection, and are then in service on it
until the last answer. Little's law (Operations Research 9 (1961)) holds for any such queue without assumptions on
distributions: mean number = throughput × mean time, for the system, for its waiting line and for the connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

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

    @property
    def due(self) -> float:
        """Transactions that were to begin."""
        return self.rate_per_s * self.length_s

    def disagreement(self) -> Literal["", "service", "busy", "ended"]:
        """Why the counts cannot all be right: the mean response time is below the mean service time, more connections
        are busy than there are, or more transactions ended than were due; empty if they agree.

        Known independently of the times: the number of connections, and how many transactions were due.
        """
        due = self.due
        if self.response_s < self.service_s:
            return "service"
        if self.utilisation > 1.0 + TOLERANCE:
            return "busy"
        if self.transactions > due + DEVIATIONS * sqrt(due) + self.connections:
            return "ended"
        return ""


@dataclass(frozen=True, slots=True)
class Interval:
    """What was counted of a closed loop in one interval, e.g. a slice."""

    transactions: float
    """Done in it; those that it cuts by the share of their time."""
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
    def transactions(self) -> float:
        """Transactions done in all intervals."""
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
    def middle(self) -> Interval:
        """The interval with the median number under way: a stall at the end of one interval says nothing about counts.

        Transactions of such a stall end after the interval, and are counted nowhere.
        """
        ordered = sorted(self.intervals, key=lambda one: one.in_system)
        return ordered[len(ordered) // 2]

    @property
    def resolution(self) -> float:
        """How far the median of the counted numbers may be from the true one, in transactions under way.

        Its response time counts as a whole in the interval in which a transaction ends. At each end of an interval this
        displaces, of every connection, up to a long response, or the mean time from one end of a transaction to the
        next; of all connections at once, as what delays one often delays all. Intervals are independent.
        """
        one = self.middle
        cycle_s = self.connections * one.length_s / one.transactions if one.transactions else one.length_s
        displaced = min(1.0, max(one.long_response_s, cycle_s) / one.length_s)
        return self.connections * (TOLERANCE + END_DEVIATIONS * displaced / sqrt(len(self.intervals)))

    def disagreement(self) -> Literal["", "many", "few"]:
        """Why the counts cannot all be right: too many or too few transactions are under way; empty if they agree
        within their resolution.
        """
        under_way = self.middle.in_system
        if under_way > self.connections + self.resolution:
            return "many"
        return "few" if not self.thinks and under_way < self.connections - self.resolution else ""
