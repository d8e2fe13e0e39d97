"""What `dynoload kv` gets: where, which keys, which operations. The same arguments for every server but the port."""

from __future__ import annotations

import json
from pathlib import Path

from mydyno.model.definition.experiment import DataSpec, Step
from mydyno.servers.sql import Address

RATIOS = {"kv_set": "0:100", "kv_get": "100:0", "kv_mixed": "90:10"}
"""Gets to sets of each workload but those of YCSB."""
YCSB = "kv_ycsb_"
"""Before the letter of one of YCSB's workloads."""
STORING = ("--connections=32", "--counters=1", "--quiet")
"""Arguments for the store before a run: InnoDB commits in groups only where many wait (measured: 8 connections are 5
times slower than 32)."""

OUT_OF_MEMORY = 0x82
"""memcached refuses a set now and then where its memory is short and its evicting thread late (the binary protocol's
status; the text protocol says "SERVER_ERROR out of memory storing object"). An error that `[validity]` bounds."""


def endpoint(address: Address) -> list[str]:
    """Host and port of the memcached; it has no accounts."""
    return [f"--host={address.host}", f"--port={address.port}"]


def keys(data: DataSpec) -> list[str]:
    """The key space and the values' size."""
    return [f"--keys={data.keys}", f"--key-size={data.key_bytes}", f"--value-size={data.value_bytes}"]


def operations(step: Step) -> list[str]:
    """The workload's share of gets and sets, and which errors are ignored, if the step's options do not set them."""
    if step.workload.startswith(YCSB):
        shares = [f"--ycsb={step.workload.removeprefix(YCSB)}"]
    else:
        shares = [] if "ratio" in step.options else [f"--ratio={RATIOS[step.workload]}"]
    if "hit_ratio" not in step.options:
        shares.append("--hit-ratio=any")  # judged by validity.not_found, which an experiment on evictions may raise
    return [*shares, *([] if "ignore_errors" in step.options else [f"--ignore-errors={OUT_OF_MEMORY}"])]


def all_stored(records: Path, data: DataSpec) -> bool:
    """Whether dynoload's own record says that every key was stored; then it does not matter that it called the time
    that this took invalid (a busy host)."""
    if not records.is_file():
        return False
    final = [json.loads(line) for line in records.read_text().splitlines() if line.startswith('{"record":"final"')]
    if not final or final[-1]["counts"]["errors"]:
        return False
    counts = final[-1]["kv"]["counts"]
    return bool(counts["cmd_set"] >= data.keys and counts["not_stored"] == 0)


def check(step: Step) -> list[str]:
    """A workload named after its operations must run them."""
    if step.workload.startswith(YCSB):
        own = [name for name in ("ratio", "key_choice") if name in step.options]
        problems = [f"options.{name}: {step.workload} has YCSB's own" for name in own]
        if step.workload == "kv_ycsb_d" and "hit_ratio" in step.options:
            problems.append(
                "options.hit_ratio: not allowed in kv_ycsb_d: its sets store the keys that misses are taken from"
            )
        if problems:
            return problems
    if step.workload in RATIOS and step.workload != "kv_mixed" and "ratio" in step.options:
        return [f"options.ratio: {step.workload} runs {RATIOS[step.workload]}; only kv_mixed has a ratio"]
    others = ("overwrite", "execute_number")
    return [f"options.{name}: is memaslap's or memslap's" for name in others if name in step.options]
