"""What limited each arm, in sentences with the shares that say so. The host of an external server is not named."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.model.definition.experiment import Step
from mydyno.model.definition.quantities import load_level
from mydyno.model.stored.summary import LimitRecord

MOST_ALONE = 3
"""Arms of one limit that each have their shares in the sentence; of more only the range is said."""
WHOSE = {
    "server CPU": "the server's",
    "load CPU": "the load's",
    "others' CPU": "neither the server's nor the load's",
}
GROUPS = {
    "link": "the link limited",
    "server CPU": "the CPUs, most of them busy with the server, limited",
    "load CPU": "the CPU of the load program limited",
    "others' CPU": "the CPUs, most of them busy with neither server nor load, limited",
    "none": "neither link nor CPUs were full with",
}
NONE_SEEN = "neither the link nor this host's CPUs were full (the server's host is not measured) with"


def limit_sentence(found: LimitRecord, step: Step) -> str:
    """What limited the arm at the step, with the shares that say so."""
    shares = found.shares
    server = f"server {_percent(shares['server'])}, " if "server" in shares else ""
    taken = f"CPUs {_percent(shares['cpu'])} of {found.cpus} busy: {server}load {_percent(shares['load'])}"
    taken += f", others {_percent(found.others)}"
    taken += "" if server else "; the server's host is not measured"
    carried = f"link {_percent(shares['link'])} of what it delivered in the timed transfer"
    return f"{found.arm} at {load_level(step.connections, step.rate)}: {_met(found)} ({carried}; {taken})."


def _met(found: LimitRecord) -> str:
    if found.met == "link":
        return "the link was the limit"
    if found.met == "cpus":
        return f"the CPUs were the limit, most of it {WHOSE[found.limit]}"
    if found.met == "thread":
        return f"the load program's busiest thread was the limit ({_percent(found.shares['thread'])} of a CPU)"
    if "server" in found.shares:
        return "neither link nor CPU was full: each connection waits for its own answers"
    return "neither link nor this host's CPUs were full: the server does not answer faster"


def limit_sentences(limits: Sequence[LimitRecord], steps: Sequence[Step]) -> tuple[str, ...]:
    """One sentence per step: which arms met which limit, each with the share that says so."""
    sentences = []
    for step in steps:
        groups = []
        for limit, words in GROUPS.items():
            group = [found for found in limits if found.step == step.id and found.limit == limit]
            if group:
                arms = [f"{found.arm} ({_telling_shares([found])})" for found in group]
                if len(group) > MOST_ALONE:
                    arms = [*(found.arm for found in group[:-1]), f"{group[-1].arm} ({_telling_shares(group)})"]
                seen = any("server" in found.shares for found in limits)
                groups.append(f"{words if seen or limit != 'none' else NONE_SEEN} {', '.join(arms)}")
        if groups:
            level = load_level(step.connections, step.rate)
            sentences.append(f"At {level} ({step.workload}): {'; '.join(groups)}.")
    return tuple(sentences)


def _telling_shares(found: Sequence[LimitRecord]) -> str:
    """The shares that made these arms' common limit, each as a range over them."""
    if found[0].limit == "link":
        return f"{_range(found, 'link')} of the link"
    if found[0].limit == "none":
        return f"link {_range(found, 'link')}, CPUs {_range(found, 'cpu')}"
    server = f"server {_range(found, 'server')}, " if all("server" in one.shares for one in found) else ""
    return f"{server}load {_range(found, 'load')} of all CPUs"


def _range(found: Sequence[LimitRecord], name: str) -> str:
    low, high = (_percent(pick(one.shares[name] for one in found)) for pick in (min, max))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
