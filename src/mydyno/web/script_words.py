"""The words of the pages' scripts."""

from __future__ import annotations

from typing import Any

from mydyno.language import tr


def design_words() -> dict[str, Any]:
    """The texts of the script of the page /design."""
    return {
        "valid": tr("valid"),
        "mistakes": tr("not valid"),
        "obstacle": tr("valid, but this host cannot do it"),
        "too_large": tr("too large to be checked"),
        "no_access": tr("access has ended: open the URL that mydyno printed last"),
        "no_answer": tr("the server did not answer"),
        "order": tr("order of the runs"),
        "copied": tr("Copied."),
        "selected": tr("Selected: copy it with Ctrl-C."),
        "starting": tr("Starting…"),
        "standard": tr("default: {value}"),
        "question": tr("What does … change?"),
        "remove": tr("remove {name}"),
        "choose": tr("choose…"),
        "key": tr("Add a key"),
        "section": tr("Add a section"),
        "name": tr("Add by name"),
        "arm": tr("Add an arm"),
        "add": tr("Add"),
        "another": tr("Add another to {name}"),
        "differs": tr("What differs is given by"),
        "ways": {
            "arms": tr("arms, one by one"),
            "vary": tr("vary: the values of one setting"),
            "factors": tr("factors: every combination"),
        },
    }
