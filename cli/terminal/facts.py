"""One row as a table of its fields, for commands that show one entity."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from atlas.cli.terminal.output import table
from atlas.cli.terminal.text_table import TextTable


def facts_table(document: Mapping[str, Any], *fields: str) -> TextTable:
    """The fields of a document that have a value, by their names; lists and objects as JSON."""
    rows = [(name.replace("_", " "), _text(document[name])) for name in fields or document]
    return table(("FIELD", "VALUE"), [row for row in rows if row[1] is not None])


def _text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    return orjson.dumps(value, default=str).decode() if isinstance(value, list | dict) else str(value)
