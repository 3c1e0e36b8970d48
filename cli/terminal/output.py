"""Prints the result of a command: one JSON document with --json, text and tables otherwise."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import orjson
import typer

from atlas.cli.terminal.stdio import is_utf8, written_out
from atlas.cli.terminal.text_table import TextTable, lines_of
from atlas.db.pg_json import stored_text
from atlas.errors import MAX_NAMED_ERRORS, AtlasError, InvalidInput
from atlas.programs.terminal_text import HIDDEN, plain, visible
from atlas.source import name_command

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

Printable: TypeAlias = "str | TextTable | RenderableType"
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

# Delete, the C1 control characters, one of which begins escape sequences, and characters that hide.
_NOT_PRINTED = re.compile(f"[\x7f-\x9f{HIDDEN}]")
_NOT_ASCII = re.compile(r"[^\x00-\x7e]+")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> TextTable:
    """A table for `say`; None is an empty cell."""
    return TextTable(columns, [[_cell_text(cell) for cell in row] for row in rows])


def say(document: Any, text: "Printable | Sequence[Printable]", *, json: bool) -> None:
    """Print the result once: as the document, or as texts and tables that say the same."""
    if json:
        print_json(document)
        return
    with written_out():
        parts: Sequence[Printable] = text if isinstance(text, list) else [cast("Printable", text)]
        for part in parts:
            if isinstance(part, str):
                sys.stdout.write(f"{_escaped(name_command(part))}\n")
            else:
                _draw(part)


def _draw(part: "TextTable | RenderableType") -> None:
    is_terminal = sys.stdout.isatty()
    if isinstance(part, TextTable):
        head, *lines = lines_of(part, width=get_terminal_size().columns if is_terminal else None)
        bold = is_terminal and not os.environ.get("NO_COLOR")
        sys.stdout.writelines(f"{line}\n" for line in (f"\x1b[1m{head}\x1b[0m" if bold else head, *lines))
        return
    # Imported here: it takes a tenth of a command's time, and few commands need it.
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(_Escaped(part))


class _Escaped:
    """Output without terminal control sequences: a job, a mail or an error may hold any text."""

    def __init__(self, text: "RenderableType") -> None:
        self._text = text

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Segment]":
        from rich.segment import Segment

        for segment in console.render(self._text, options):
            yield segment if segment.control else Segment(_escaped(segment.text), segment.style)


def _escaped(text: str) -> str:
    return plain(visible(stored_text(text)))


def print_json(document: Any) -> None:
    """Print one JSON document; models, dataclasses, ids and times become plain JSON."""
    with written_out():
        text = dump_json(document, indent=True)
        sys.stdout.write((text if is_utf8(sys.stdout) else _NOT_ASCII.sub(_json_escape, text)) + "\n")


def dump_json(document: Any, *, indent: bool = False) -> str:
    """JSON whose C1 control characters and hidden ones are escaped too: no terminal acts on them, people see them."""
    text = orjson.dumps(document, default=_plain, option=orjson.OPT_INDENT_2 if indent else None).decode()
    return _NOT_PRINTED.sub(_json_escape, text)


def _plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else str(value)


def _json_escape(match: re.Match[str]) -> str:
    """Characters as JSON writes them in ASCII: those beyond the first 65,536 are two surrogates."""
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def format_age(time: datetime) -> str:
    """How long ago it was."""
    return str(timedelta(seconds=max(0, int((datetime.now(UTC) - time).total_seconds()))))


def report(error: AtlasError, *, json: bool) -> None:
    """Print an error: one line with cause and remedy on stderr, and with --json a document on stdout."""
    sys.stderr.write(f"error: {_line(error)}\n")
    if isinstance(error, InvalidInput):
        # The first are in that line.
        sys.stderr.writelines(
            f"  {' '.join(_escaped(str(field_error)).split())}\n" for field_error in error.errors[MAX_NAMED_ERRORS:]
        )
    if not json:
        return
    message, remedy = name_command(error.message), name_command(error.remedy)
    document: dict[str, Any] = {"type": error.type_name, "message": message, "remedy": remedy}
    if isinstance(error, InvalidInput):
        document["errors"] = error.errors
    print_json({"error": document})


def say_page(name: str, rows: Sequence[Any], text: "Printable", *, next_before: object | None, json: bool) -> None:
    """Print a page of a list. The id at which the next page begins is in the document, and on stderr for people."""
    say({name: rows, "next": next_before}, text, json=json)
    if next_before is not None:
        sys.stderr.write(f"There may be more. `--before {next_before}` shows what follows.\n")


def warn(error: AtlasError) -> None:
    """Print an error that does not end the command, as one line on stderr."""
    sys.stderr.write(f"warning: {_line(error)}\n")


def _line(error: AtlasError) -> str:
    return " ".join(_escaped(name_command(str(error))).split())


def _cell_text(cell: object) -> str:
    if cell is None:
        return ""
    return cell.isoformat(sep=" ", timespec="seconds") if isinstance(cell, datetime) else _escaped(str(cell))
