"""The catalogues hold every message of the program, translated, and are compiled."""

from __future__ import annotations

import pytest
from babel.messages.catalog import Message
from docs.translations import TRANSLATED, mo_bytes, po_bytes, po_path, problems, read, updated


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_message_is_translated_with_its_placeholders(language: str) -> None:
    messages = [message for message in read(language) if message.id]
    assert messages
    assert [line for message in messages for line in problems(message)] == []


@pytest.mark.parametrize("language", TRANSLATED)
def test_the_catalogue_is_up_to_date_and_compiled(language: str) -> None:
    found = updated(language)
    assert po_path(language).read_bytes() == po_bytes(found), "run docs/translate"
    assert po_path(language).with_suffix(".mo").read_bytes() == mo_bytes(found), "run docs/translate"


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        (Message("{count} hosts", ""), "is not translated"),
        (Message("{count} hosts", "主机"), "lacks ['count']"),
        (Message("{count} hosts", "{count} {hosts}"), "has ['hosts']"),
        (Message(("{count} host", "{count} hosts"), ("{n} 主机",)), "lacks ['count']"),
    ],
)
def test_mistakes_of_a_translation_are_found(message: Message, wrong: str) -> None:
    assert wrong in problems(message)[0]


def test_a_comment_permits_other_placeholders() -> None:
    message = Message(
        "{who} {verb} {more}", "{who} {noun}", auto_comments=["Placeholders: may omit verb, more; may use noun"]
    )
    assert problems(message) == []
