"""Prints the result of a command: one JSON document with --json, text and tables otherwise."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import orjson
import typer

from atlas.cli.stdio import written_out
from atlas.db.pg_json import stored_text
from atlas.errors import AtlasError, InvalidInput
from atlas.programs.terminal_text import plain
from atlas.source import name_command

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.table import Table

Shown: TypeAlias = "str | TextTable | RenderableType"
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

# A table that goes into a file or a pipe is not cut to the width of a terminal.
_PIPE_WIDTH = 240
# Delete and the C1 control characters, one of which begins escape sequences.
_C1_CONTROLS = re.compile(r"[\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table without borders; None is an empty cell."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> TextTable:
    """A table for `say`."""
    return TextTable(columns, [*rows])


def say(document: Any, shown: "Shown | Sequence[Shown]", *, json: bool) -> None:
    """Print the result once: as the document, or as texts and tables that say the same."""
    if json:
        print_json(document)
        return
    with written_out():
        parts: Sequence[Shown] = shown if isinstance(shown, list) else [cast("Shown", shown)]
        for part in parts:
            if isinstance(part, str):
                sys.stdout.write(f"{_escaped(name_command(part))}\n")
            else:
                _draw(part)


def _draw(part: "TextTable | RenderableType") -> None:
    lines = _lines_of(part) if isinstance(part, TextTable) else None
    if lines is not None:
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return
    # Imported here: it takes a tenth of a command's time, and most tables fit.
    from rich.console import Console

    drawn = _rich_table(part) if isinstance(part, TextTable) else part
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False).print(_Escaped(drawn))


def _lines_of(part: TextTable) -> list[str] | None:
    """The lines of a table; None if it does not fit, or has cells of several lines or with wide characters."""
    is_terminal = sys.stdout.isatty()
    cells = [[*part.columns], *([_shown(cell) for cell in row] for row in part.rows)]
    if not all(cell.isascii() and cell.isprintable() for row in cells for cell in row):
        return None
    widths = [max(len(row[column]) for row in cells) for column in range(len(part.columns))]
    if sum(widths) + 2 * (len(widths) - 1) > (get_terminal_size().columns if is_terminal else _PIPE_WIDTH):
        return None
    head, *lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )
    return [f"\x1b[1m{head}\x1b[0m" if is_terminal and not os.environ.get("NO_COLOR") else head, *lines]


def _rich_table(part: TextTable) -> "Table":
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*part.columns, box=None, pad_edge=False, header_style="bold")
    for row in part.rows:
        drawn.add_row(*(Text(_shown(cell)) for cell in row))
    return drawn


class _Escaped:
    """Output without terminal control sequences: a job, a mail or an error may hold any text."""

    def __init__(self, text: "RenderableType") -> None:
        self._text = text

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Segment]":
        from rich.segment import Segment

        for segment in console.render(self._text, options):
            yield segment if segment.control else Segment(_escaped(segment.text), segment.style)


def _escaped(text: str) -> str:
    return plain(stored_text(text))


def print_json(document: Any) -> None:
    """Print one JSON document; dataclasses, ids and times become plain JSON."""
    with written_out():
        sys.stdout.write(dump_json(document, indent=True) + "\n")


def dump_json(document: Any, *, indent: bool = False) -> str:
    """JSON whose C1 control characters are escaped too, so that no terminal acts on them."""
    text = orjson.dumps(document, default=str, option=orjson.OPT_INDENT_2 if indent else None).decode()
    return _C1_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shown_age(time: datetime) -> str:
    """How long ago it was."""
    return str(timedelta(seconds=max(0, int((datetime.now(UTC) - time).total_seconds()))))


def report(error: AtlasError, *, json: bool) -> None:
    """Print an error: one line with cause and remedy on stderr, and with --json a document on stdout."""
    sys.stderr.write(f"error: {_line(error)}\n")
    if not json:
        return
    message, remedy = name_command(error.message), name_command(error.remedy)
    document: dict[str, Any] = {"type": error.type_name, "message": message, "remedy": remedy}
    if isinstance(error, InvalidInput):
        document["errors"] = error.errors
    print_json({"error": document})


def hint_at_more(option: str, last: object) -> None:
    """Say on stderr that a list goes on, and how to see more of it."""
    sys.stderr.write(f"There may be more. `{option} {last}` shows what follows.\n")


def warn(error: AtlasError) -> None:
    """Print an error that does not end the command, as one line on stderr."""
    sys.stderr.write(f"warning: {_line(error)}\n")


def _line(error: AtlasError) -> str:
    return " ".join(_escaped(name_command(str(error))).split())


def _shown(cell: object) -> str:
    if cell is None:
        return ""
    return cell.isoformat(sep=" ", timespec="seconds") if isinstance(cell, datetime) else _escaped(str(cell))
