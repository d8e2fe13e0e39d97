"""summary.json with its sentences: what `mydyno report --format json` and `mydyno run --json` print. Frozen; no I/O."""

from __future__ import annotations

from pydantic import Field

from mydyno.model.frozen_record import is_empty
from mydyno.model.stored.summary import ConclusionRecord, EffectRecord, PublishedEntry, Summary


class WordedEffect(EffectRecord):
    """An effect with the sentence that it allows."""

    sentence: str


class WordedConclusion(ConclusionRecord):
    """A conclusion with what its answer rests on."""

    because: str


class WordedFigure(PublishedEntry):
    """A published figure with what its agreement rests on."""

    because: str
    note: str


class WordedSummary(Summary):
    """The summary with the beginning of the report and its sentences, in English."""

    effects: tuple[WordedEffect, ...]
    conclusions: tuple[WordedConclusion, ...] = ()
    published: tuple[WordedFigure, ...] = ()
    answer: tuple[str, ...]
    """One to three short sentences that answer the question, then those on its further metrics."""
    further: int = Field(0, exclude_if=is_empty)
    """How many sentences of `answer`, the last ones, are on further metrics."""
    scope: str
    """Where and when the answer holds, once: host, server, workload, data, durability, dates."""
    sharpen: tuple[str, ...]
    """What would improve the answer: time needed for ±x %, a quieter host, more blocks."""
    sentences: tuple[str, ...]
    """The long form of every verdict, in order, and what limits them."""
