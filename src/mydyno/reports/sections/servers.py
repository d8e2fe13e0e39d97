"""Where arms run different servers: the settings that still differ between them, for they are part of what is compared.

Variables that shape performance and that at least two of the servers have; the experiment's own are equal on all of
them, so what stands here are defaults. All variables are in the section on repeating the study.
"""

from __future__ import annotations

from mydyno.document.result import StudyResult
from mydyno.document.section import Section, Table, render
from mydyno.language import agreed
from mydyno.wording.server_settings import differing_settings


def build(result: StudyResult) -> Section | None:
    """The section, or None if all arms run one version or no setting differs."""
    found = differing_settings(result)
    if found is None:
        return None
    count = len(result.summary.server_differences)
    return Section(
        "servers",
        "Servers, and how their settings differ",
        "Servers",
        render(
            "servers.html",
            intro=(
                f"The arms run different servers under the experiment's own settings. {count} further setting "
                "that shapes performance has another value on some of them, by default or because that version "
                "knows no other: an effect of the server includes the effects of this setting."
                if count == 1
                else agreed(
                    f"The arms run different servers under the experiment's own settings. {count} further settings "
                    "that shape performance have another value on some of them, by default or because that version "
                    "knows no other: an effect of the server includes the effects of these settings."
                )
            ),
            table=Table("Settings that differ, as reported by the servers (SHOW GLOBAL VARIABLES)", *found),
        ),
    )
