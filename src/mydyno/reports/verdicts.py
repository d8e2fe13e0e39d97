"""The verdicts of a study as tables of a terminal and of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mydyno.document.section import Cell, Table
from mydyno.wording.verdict_table import VerdictCell, VerdictTable, flat


def verdict_tables(table: VerdictTable, width: int | None = None) -> Iterator[Table]:
    """The grids of factors, then the steps; in the form of cells that has room in so many columns of a terminal."""
    for grid in table.grids:
        compared = [cell for _, cells in grid.rows for cell in cells if cell is not None]
        levels = max(sum(len(level) + 2 for level in row) for row, _ in grid.rows)
        layout = _layout(compared, width and width - levels, len(grid.columns))
        rows: list[Sequence[str | Cell]] = [
            (*levels, *(f"control {grid.control}" if cell is None else layout(cell) for cell in cells))
            for levels, cells in grid.rows
        ]
        yield Table("", (*grid.row_factors, *grid.columns), [(grid.caption,), *rows])
    if table.steps:
        compared = [cell for step in table.steps for _, row in step.rows for cell in row]
        names = max(len(name) for step in table.steps for name, _ in step.rows)
        layout = _layout(compared, width and width - names, len(table.columns))
        rows = []
        for step in table.steps:
            rows.append([step.heading])
            for name, cells in step.rows:
                rows.append([name, *map(layout, cells)])
        yield Table("", ("arm", *table.columns), rows)


def _whole(cell: VerdictCell) -> Cell:
    """Sign, effect and verdict; the interval below."""
    return Cell(" ".join(filter(None, (cell.symbol, cell.effect, cell.verdict))), cell.css, below=cell.interval)


def _one_line(cell: VerdictCell) -> Cell:
    """Sign, effect, interval and verdict."""
    interval = f"({cell.interval})" if cell.interval else ""
    return Cell(" ".join(filter(None, (cell.symbol, cell.effect, interval, cell.verdict))), cell.css)


def _compact(cell: VerdictCell) -> Cell:
    """Without the verdict's word, which its sign stands for."""
    interval = f"[{flat(cell.interval).replace(' … ', ' ').removesuffix(' %')}]" if cell.interval else ""
    return Cell(" ".join(filter(None, (cell.symbol, cell.effect, interval))), cell.css)


def _two_lines(cell: VerdictCell) -> Cell:
    """The interval below sign and effect."""
    return Cell(
        " ".join(filter(None, (cell.symbol, cell.effect))), cell.css,
        below=f"  {cell.interval}" if cell.interval else "",
    )  # fmt: skip


Layout = Callable[[VerdictCell], Cell]
LAYOUTS: tuple[Layout, ...] = (_one_line, _compact, _two_lines)
"""The first that fits is printed."""


def _layout(cells: Sequence[VerdictCell], room: int | None, columns: int) -> Layout:
    if room is None:
        return _whole

    def widest(layout: Layout) -> int:
        return max(len(line) for cell in map(layout, cells) for line in (cell.text, cell.below))

    return next((one for one in LAYOUTS if (widest(one) + 2) * columns <= room), LAYOUTS[-1])
