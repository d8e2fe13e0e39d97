"""How arms are distinguished: by colour, by marker and by line style, so that no single one of them is needed.

The colours (in report.css, `--arm0` …) are Okabe and Ito's, darkened or lightened until each has a contrast of at least
3:1 on its background; the control is neutral ink.
"""

from __future__ import annotations

from dataclasses import dataclass

SHAPES = ("circle", "square", "triangle", "diamond", "down", "plus", "cross", "bar")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2", "6 2 1 2 1 2")
GLYPHS = dict(zip(SHAPES, "●■▲◆▼✚✖▬", strict=True))
COLOURS = 8


@dataclass(frozen=True, slots=True)
class ArmStyle:
    """The look of one arm in every chart. `colour` is the number of a CSS class a0 … a7."""

    name: str
    label: str
    colour: int
    shape: str
    dash: str
    copy: bool = False
    """The control's second copy: the control's colour, hollow and thin."""

    @property
    def css(self) -> str:
        """The CSS classes of everything drawn for this arm."""
        return f"a{self.colour}" + (" copy" if self.copy else "")


def arm_styles(arms: tuple[str, ...]) -> dict[str, ArmStyle]:
    """A style per arm, the control first. Beyond eight arms the colours come again, with other markers and dashes."""
    return {
        arm: ArmStyle(
            arm,
            f"{arm} (control)" if index == 0 else arm,
            index % COLOURS,
            SHAPES[(index + index // COLOURS) % len(SHAPES)],
            DASHES[(index + index // COLOURS) % len(DASHES)],
        )
        for index, arm in enumerate(arms)
    }


def copy_style(control: ArmStyle) -> ArmStyle:
    """The style of the control's second copy."""
    return ArmStyle(control.name, copy_name(control.name, 2), control.colour, control.shape, "2 2", copy=True)


def copy_name(arm: str, copy_number: int) -> str:
    """An arm's run by name; that of the control's second copy."""
    return f"{arm} again (A/A)" if copy_number == 2 else arm
