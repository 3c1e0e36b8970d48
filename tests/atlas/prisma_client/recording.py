"""Calls with the answers that Prisma Client Python gives on Prisma's own engine, as `recorded.json` holds them.

A call is recorded with what it returned or raised, and with the rows that it changed. `record_engine.py` makes the
file; the tests make the same calls of our client, on the same rows.
"""

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from atlas.db.pool import Connection
from atlas.generated import Base64, Json
from atlas.generated.errors import PrismaError

RECORDED = Path(__file__).with_name("recorded.json")

# The columns of every row as JSON text, by table and key.
Rows = dict[str, dict[str, str]]

# Ada leads Bob and Cyd, Bob leads Dan; Ada has gadgets 1 to 4 and a badge, Bob gadget 5, and gadget 6 is without an owner.
SEED = """
insert into atlas."Person" (id, name, email, key, boss_id) values
  (1, 'Ada', null, 'k1', null), (2, 'Bob', 'bob@x', 'k2', 1), (3, 'Cyd', 'cyd@x', 'k3', 1), (4, 'Dan', null, 'k4', 2);
insert into atlas."Badge" (number, person_id) values
  ('00000000-0000-7000-8000-000000000001', 1), ('00000000-0000-7000-8000-000000000002', null);
insert into atlas."Pair" ("left", "right", label) values (1, 1, 'one'), (1, 2, null), (2, 1, 'two');
insert into atlas."Mark" (id, "left", "right") values (1, 1, 1), (2, 1, 2);
insert into atlas.gadgets (id, code, flag, small, big, ratio, price, atz, doc, text_doc, color, tags, numbers, odd,
  touched, "owner id") values
  (1, 'g1', true, 1, 10, 0.5, 1.500, '2024-01-01Z', '{"a": 1, "list": [1, 2], "s": "Hello World"}', '{"b":1, "a":2}',
    'red', '{x,y}', '{1,2}', 'ab', '2024-01-01Z', 1),
  (2, 'g2', false, 2, 20, 1.5, null, '2024-01-02Z', '{"a": {"b": [10, {"c": "deep"}]}, "s": "hello"}', null,
    'GREEN', '{x}', '{}', 'Ab', '2024-01-01Z', 1),
  (3, 'g3', null, 0, null, null, 3.000, '2024-01-03Z', '[1, "two", null, [3]]', '[1]', 'it''s {blue}', '{}', '{3}',
    'a%', '2024-01-01Z', 1),
  (4, 'g4', true, 1, 30, 2.5, 4.250, null, '"text"', '"text"', null, '{z,x}', '{1,1}', 'b_', '2024-01-01Z', 1),
  (5, 'g5', false, null, 20, 0.5, null, '2024-01-02Z', 'null', 'null', 'red', '{y}', null, null, '2024-01-01Z', 2),
  (6, 'g6', null, 2, null, null, null, null, null, null, 'GREEN', null, '{}', '', '2024-01-01Z', null);
alter sequence atlas."Person_id_seq" restart 101;
alter sequence atlas."gadgets_id_seq" restart 101;
"""
KEYS = {"Person": "id", "gadgets": "id", "Badge": "number", "Pair": '"left", "right"', "Mark": "id"}


# Prisma's engine cannot write a name with a quote in it, and its version is older than the seventh of UUIDs.
_PLAIN = {
    'odd \\"gadgets\\"': "gadgets",
    'odd ""gadgets""': "gadgets",
    'odd \\"column\\"; drop': "odd",
    'odd ""column""; drop': "odd",
    "uuid(7)": "uuid()",
}


def plain(text: str) -> str:
    """The workshop's schema, or the statements that make its tables, as Prisma's engine can use them."""
    for odd, name in _PLAIN.items():
        text = text.replace(odd, name)
    return text


class Call(NamedTuple):
    """One call of the generated client: `workshop.<model>.<method>(**arguments)`."""

    model: str
    method: str
    arguments: dict[str, Any]


async def restore(conn: Connection) -> None:
    """The rows that every call starts from, and no others; the next ids are 101 and so on."""
    tables = ", ".join(f'atlas."{table}"' for table in KEYS)
    await conn.execute(f"truncate {tables}; {SEED}")


async def read_rows(conn: Connection) -> Rows:
    """The columns of every row as JSON text, by table and key, without the time of the last write."""
    found = {}
    for table, key in KEYS.items():
        for row in await conn.fetch(f'select array[{key}]::text, row_to_json(t)::text from atlas."{table}" t'):
            columns = json.loads(row[1]).items()
            found[f"{table} {row[0]}"] = {name: json.dumps(value) for name, value in columns if name != "touched"}
    return found


def changes(before: Rows, after: Rows) -> dict[str, Any]:
    """The rows that differ: what is new in them, or None for a row that is gone."""
    found: dict[str, Any] = dict.fromkeys(sorted(before.keys() - after.keys()))
    for key, row in sorted(after.items()):
        old = before.get(key, dict.fromkeys(row, "null"))
        new = {name: value for name, value in row.items() if value != old[name]}
        if new or key not in before:
            found[key] = new
    return found


async def answer(actions: Any, call: Call) -> Any:
    """What a call returned, or the error that it raised, as JSON holds it."""
    try:
        result = await getattr(actions, call.method)(**call.arguments)
    except PrismaError as error:
        return {"error": type(error).__name__, "code": getattr(error, "code", None)}
    if call.method == "find_many" and "include" not in call.arguments:
        return [getattr(row, "id", None) or _shown(row) for row in result]
    return json.loads(json.dumps(_shown(result)))


def _shown(value: Any) -> Any:
    match value:
        case BaseModel():
            return {
                name: _shown(inner) for name, inner in value if inner is not None and inner != [] and name != "touched"
            }
        case dict():
            return {name: _shown(inner) for name, inner in value.items()}
        case list():
            return [_shown(inner) for inner in value]
        case datetime():
            return value.isoformat()
        case Decimal():
            return str(value.normalize())
        case Base64():
            return str(value)
    return value


def encoded(value: Any) -> Any:
    """The arguments of a call as JSON holds them."""
    match value:
        case Json():
            return {"$json": value.data}
        case datetime():
            return {"$datetime": value.isoformat()}
        case Decimal():
            return {"$decimal": str(value)}
        case Base64():
            return {"$base64": str(value)}
        case dict():
            return {name: encoded(inner) for name, inner in value.items()}
        case list() | tuple():
            return [encoded(inner) for inner in value]
    return value


def decoded(value: Any) -> Any:
    """The arguments of a call, from JSON."""
    match value:
        case {"$json": data}:
            return Json(data)
        case {"$datetime": text}:
            return datetime.fromisoformat(text)
        case {"$decimal": text}:
            return Decimal(text)
        case {"$base64": text}:
            return Base64.fromb64(text)
        case dict():
            return {name: decoded(inner) for name, inner in value.items()}
        case list():
            return [decoded(inner) for inner in value]
    return value
