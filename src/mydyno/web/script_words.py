"""The words of the pages' scripts."""

from __future__ import annotations

from typing import Any


def design_words() -> dict[str, Any]:
    """The texts of the script of the page /design."""
    return {
        "valid": "valid",
        "mistakes": "not valid",
        "obstacle": "valid, but this host cannot do it",
        "too_large": "too large to be checked",
        "no_access": "access has ended: open the URL that mydyno printed last",
        "no_answer": "the server did not answer",
        "copied": "Copied.",
        "selected": "Selected: copy it with Ctrl-C.",
        "starting": "Starting…",
        "standard": "default: {value}",
        "question": "What does … change?",
        "remove": "remove {name}",
        "choose": "choose…",
        "key": "Add a key",
        "section": "Add a section",
        "name": "Add by name",
        "arm": "Add an arm",
        "add": "Add",
        "another": "Add another to {name}",
        "differs": "What differs is given by",
        "ways": {
            "arms": "arms, one by one",
            "vary": "vary: the values of one setting",
            "factors": "factors: every combination",
        },
    }
