"""What a command says: one JSON document on stdout with --json, words and tables for people otherwise."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from atlas.cli.stdio import written_out
from atlas.db.pg_json import stored_text
from atlas.errors import AtlasError, InvalidInput
from atlas.programs.terminal_text import plain

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

# A table that goes into a file or a pipe is never cut to the width of a terminal that is not there.
_WIDTH_OF_A_PIPE = 240
# Delete and the second set of control characters, one of which begins the orders to a terminal.
_C1_CONTROLS = re.compile(r"[\x7f-\x9f]")


def say(document: Any, words: RenderableType, *, json: bool) -> None:
    """Answer the caller once: with the document, or with the words that say the same."""
    if json:
        print_json(document)
        return
    width = None if sys.stdout.isatty() else _WIDTH_OF_A_PIPE
    with written_out():
        Console(width=width, highlight=False, soft_wrap=isinstance(words, str)).print(
            _Harmless(Text(_harmless(words)) if isinstance(words, str) else words)
        )


class _Harmless:
    """What a terminal shows and does not obey: a job, a mail or an error may hold anything."""

    def __init__(self, words: RenderableType) -> None:
        self._words = words

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self._words, options):
            yield segment if segment.control else Segment(_harmless(segment.text), segment.style)


def _harmless(text: str) -> str:
    return plain(stored_text(text))


def print_json(document: Any) -> None:
    """One document and nothing else; dataclasses, ids and moments become plain JSON."""
    # asyncpg's ids are a subclass of UUID, which orjson leaves to us.
    with written_out():
        sys.stdout.write(dump_json(document, indent=True) + "\n")


def dump_json(document: Any, *, indent: bool = False) -> str:
    """JSON that a terminal only shows: what it might obey beyond ASCII's controls is escaped too."""
    text = orjson.dumps(document, default=str, option=orjson.OPT_INDENT_2 if indent else None).decode()
    return _C1_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A plain table; what is None stays empty."""
    drawn = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        drawn.add_row(*(Text(_shown(cell)) for cell in row))
    return drawn


def report(error: AtlasError, *, json: bool) -> None:
    """A refusal: one line with cause and remedy on stderr, and the document where one was asked for."""
    sys.stderr.write(f"error: {' '.join(_harmless(str(error)).split())}\n")
    if not json:
        return
    document: dict[str, Any] = {"type": error.type_name, "message": error.message, "remedy": error.remedy}
    if isinstance(error, InvalidInput):
        document["errors"] = error.errors
    print_json({"error": document})


def warn(error: AtlasError) -> None:
    """A refusal that does not end the command: one line on stderr."""
    sys.stderr.write(f"warning: {' '.join(str(error).split())}\n")


def _shown(cell: object) -> str:
    if cell is None:
        return ""
    return cell.isoformat(sep=" ", timespec="seconds") if isinstance(cell, datetime) else _harmless(str(cell))
