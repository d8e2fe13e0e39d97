"""What a reader sees or hears of an HTML page: its texts, and the attributes that screen readers speak."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

SPOKEN = ("aria-label", "title", "placeholder", "alt", "summary")
UNSEEN = ("script", "style", "code", "pre", "textarea", "option")
"""Elements of no prose: programs, commands, files, and names to choose from."""
EMPTY = ("br", "hr", "img", "input", "link", "meta")


@dataclass
class VisibleText(HTMLParser):
    """Collects texts, but for those within an element of another language (lang="en") or of none."""

    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[tuple[str, bool]] = []

    @property
    def _hidden(self) -> bool:
        return bool(self._open) and self._open[-1][1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins; void ones have no end."""
        found = dict(attrs)
        hidden = self._hidden or tag in UNSEEN or (tag != "html" and found.get("lang") == "en")
        if not hidden:
            self.texts += [value for name in SPOKEN if (value := found.get(name))]
        if tag not in EMPTY:
            self._open.append((tag, hidden))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element without content."""
        if tag not in EMPTY:
            self.handle_starttag(tag, attrs)
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        """An element ends, and with it those within that have no end of their own."""
        if any(one == tag for one, _ in self._open):
            while self._open.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        """A text."""
        if (text := " ".join(data.split())) and not self._hidden:
            self.texts.append(text)


def visible_texts(page: str) -> list[str]:
    """Every text of the page, in its order."""
    parser = VisibleText()
    parser.feed(page)
    return parser.texts
