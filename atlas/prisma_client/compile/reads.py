"""find_unique, find_first, find_many and count."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from atlas.prisma_client.compile.draft import CompiledQuery, Draft, column, quoted, scalar
from atlas.prisma_client.compile.pages import page_sql, parse_page
from atlas.prisma_client.compile.selection import columns_sql, selection_sql
from atlas.prisma_client.compile.shapes import compose_once
from atlas.prisma_client.compile.sources import source_of_key, source_sql
from atlas.prisma_client.compile.where import key_values, unique_sql
from atlas.prisma_client.errors import missing_value
from atlas.prisma_client.schema import Model, Schema, UniqueKey
from atlas.prisma_client.values import Codec, codec_of, encode

_SELECTED = re.compile(r"(_\w+) \{ (.*) \}", re.DOTALL)


def find_unique(schema: Schema, model: Model, result: type[BaseModel], where: Any, include: Any) -> CompiledQuery:
    """The row that a unique key names."""
    if include is None and isinstance(where, dict) and len(where) == 1:
        [(name, value)] = where.items()
        lookup = _lookups(model, result).get(name)
        if lookup is not None:
            return lookup.statement(value)
    draft = Draft(schema)
    alias = draft.alias()
    condition = unique_sql(draft, model, alias, where)
    columns, included = selection_sql(draft, model, alias, result, include)
    sql = f"select {columns} from {source_sql(draft, model, where)} {alias} where {condition}"
    return CompiledQuery(sql, draft.parameters, included)


@dataclass(slots=True)
class Lookup:
    """The everyday question: one key, one row. Its SQL depends on nothing else, so it is composed once."""

    model: Model
    key: UniqueKey
    sql: str
    codecs: list[tuple[str, Codec, str]]

    def statement(self, value: Any) -> CompiledQuery:
        """The question for this value of the key."""
        if value is None or len(self.codecs) > 1:
            values = key_values(self.model, self.key, value)
            return CompiledQuery(self.sql, [encode(codec, values[name], label) for name, codec, label in self.codecs])
        [(_, codec, label)] = self.codecs
        return CompiledQuery(self.sql, [encode(codec, value, label)])


@cache
def _lookups(model: Model, result: type[BaseModel]) -> dict[str, Lookup]:
    """The lookup of each key by its name."""
    return {key.name: _lookup(model, key, result) for key in reversed(model.keys)}


def _lookup(model: Model, key: UniqueKey, result: type[BaseModel]) -> Lookup:
    fields = [model.fields[part] for part in key.fields]
    conditions = " and ".join(
        f"{column('t0', field)} = ${number}{codec_of(field).cast}" for number, field in enumerate(fields, 1)
    )
    sql = f"select {columns_sql('t0', result, model)} from {source_of_key(model, fields)} t0 where {conditions}"
    return Lookup(model, key, sql, [(field.name, codec_of(field), field.label) for field in fields])


def find_many(schema: Schema, model: Model, result: type[BaseModel], arguments: Mapping[str, Any]) -> CompiledQuery:
    """A page of rows."""

    def compose(draft: Draft) -> CompiledQuery:
        alias = draft.alias()
        rest = dict(arguments)
        columns, included = selection_sql(draft, model, alias, result, rest.pop("include", None))
        page = parse_page(draft, model, rest)
        return CompiledQuery(page_sql(draft, model, alias, columns, page), draft.parameters, included, page.backwards)

    return compose_once(schema, (model, result), arguments, compose)


def count(schema: Schema, model: Model, arguments: Mapping[str, Any], selected: list[str]) -> CompiledQuery:
    """How many rows a page has (`_all`), and in how many of them each selected field is set."""

    def compose(draft: Draft) -> CompiledQuery:
        alias = draft.alias()
        fields = [scalar(model, name) for name in selected if name != "_all"]
        columns = ", ".join(f"{column(alias, field)} as {quoted(field.name)}" for field in fields)
        page = parse_page(draft, model, arguments, ("where", "cursor", "take", "skip"))
        rows = page_sql(draft, model, alias, columns, page)
        counts = ", ".join(f"{count_sql(name)} as {quoted(name)}" for name in selected)
        return CompiledQuery(f"select {counts} from ({rows}) r", draft.parameters)

    return compose_once(schema, (model, *selected), arguments, compose)


def count_sql(name: str) -> str:
    """Rows, or the rows in which a column of the subquery is set."""
    return "count(*)" if name == "_all" else f"count(r.{quoted(name)})"


def aggregates(model: Model, selection: list[str]) -> dict[str, list[str]]:
    """The aggregates of a call, which the actions hand over as the text `_count { _all priority }`."""
    selected = {}
    for text in selection:
        match = _SELECTED.fullmatch(text)
        if match is not None:
            selected[match[1]] = match[2].split()
            if not selected[match[1]]:
                raise missing_value(f"{model.name}.{match[1]}", "names no field")
    return selected
