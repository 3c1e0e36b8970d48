"""Tables of text without borders: words are never cut, so that ids can be copied from a terminal of any width."""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

GAP = "  "


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table without borders."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def lines_of(table: TextTable, *, width: int | None) -> list[str]:
    """The lines of a table, its head first, without blanks at their ends.

    Cells that do not fit into the width of a terminal are wrapped between words, the widest columns first. In a table
    that still does not fit, lines are longer than the terminal. Without a width no cell is wrapped.
    """
    rows = [[*table.columns], *([_on_one_line(cell) for cell in row] for row in table.rows)]
    columns = [*zip(*rows, strict=True)]
    widths = [max(map(_width, column)) for column in columns]
    if width is not None:
        least = [max(_width(word) for cell in column for word in cell.split(" ")) for column in columns]
        _narrow(widths, least, width - len(GAP) * (len(widths) - 1))
    return [line for row in rows for line in _row_lines(row, widths)]


def _on_one_line(cell: str) -> str:
    return cell if cell.isprintable() else " ".join(cell.split())


def _narrow(widths: list[int], least: Sequence[int], width: int) -> None:
    """Take from the widest columns what is too much, and from none more than its longest word allows."""
    while sum(widths) > width:
        wide = [column for column, now in enumerate(widths) if now > least[column]]
        if not wide:
            return
        widths[max(wide, key=widths.__getitem__)] -= 1


def _row_lines(row: Sequence[str], widths: Sequence[int]) -> Iterable[str]:
    cells = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    for number in range(max(map(len, cells))):
        parts = (cell[number] if number < len(cell) else "" for cell in cells)
        yield GAP.join(part + " " * (width - _width(part)) for part, width in zip(parts, widths, strict=True)).rstrip()


def _wrapped(cell: str, width: int) -> list[str]:
    if _width(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False) or [""]


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    # Imported here: most tables do not need it.
    from rich.cells import cell_len

    return cell_len(text)
