"""The client against Prisma's own engine: the same calls, the same answers, the same rows afterwards.

The answers are recorded (`recording.py`, `record_engine.py`). These differences are meant:

- `contains`, `startswith` and `endswith` find their text as it stands; the engine takes `%` and `_` for wildcards.
- An order may name several fields in one dict, and say where nulls of a required field go.
- None asks for null in a Json column; the engine's Python client cannot ask for it.
- A relation may be crossed back in a nested update; `disconnect` with a filter lets go only of a row that it matches.
- A cursor on a row without a related row has its place in an order by that relation.
- A `delete` over a relation of a row that is not there returns None, as other updates of it do.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from atlas.db.pool import Connection, connect
from atlas.generated import errors
from atlas.prisma_client import AsyncpgPrisma
from atlas.prisma_client.read_schema import parse_schema
from atlas.test_databases import TestDatabases
from tests.atlas.prisma_client.chosen_calls import chosen_calls
from tests.atlas.prisma_client.recording import (
    RECORDED,
    Call,
    Rows,
    answer,
    changes,
    decoded,
    encoded,
    plain,
    read_rows,
    restore,
)
from tests.atlas.prisma_client.workshop import SCHEMA_TEXT, TABLES, Workshop
from tests.support import some

SCHEMA = parse_schema(plain(SCHEMA_TEXT))
LINES = json.loads(RECORDED.read_text())
CHOSEN = {json.dumps(encoded(call)) for call in chosen_calls()}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(databases: TestDatabases) -> AsyncIterator[Connection]:
    """A connection to the rows that every call starts from."""
    async with databases.database() as url:
        conn = await connect(url)
        await conn.execute(f"set search_path = atlas; {plain(TABLES)}; reset search_path")
        await restore(conn)
        yield conn
        await conn.close()


async def replay(conn: Connection, line: dict[str, Any], before: Rows) -> dict[str, Any]:
    """Make a recorded call on the rows `before` and undo it; returns what `recorded.json` would say of it."""
    call = Call(*decoded(line["call"]))
    transaction = conn.transaction()
    await transaction.start()
    await conn.execute(
        'alter sequence atlas."Person_id_seq" restart 101; alter sequence atlas.gadgets_id_seq restart 101'
    )
    attempt = conn.transaction()
    await attempt.start()
    result = await answer(getattr(Workshop(AsyncpgPrisma.on(conn, schema=SCHEMA)), call.model), call)
    await (attempt.rollback() if isinstance(result, dict) and "error" in result else attempt.commit())
    found = {"call": line["call"], "answer": result, "changes": changes(before, await read_rows(conn))}
    await transaction.rollback()
    return found


def is_same(found: dict[str, Any], recorded: dict[str, Any]) -> bool:
    """Whether both are the same answer; an error may be of a narrower class, or have a code that the engine omits.

    The engine says P2009 of a missing value as well, if it stands where several types are possible.
    """
    ours, theirs = found["answer"], recorded["answer"]
    if isinstance(theirs, dict) and "error" in theirs and isinstance(ours, dict) and "error" in ours:
        kind = getattr(errors, ours["error"], errors.DataError)
        codes = {theirs["code"], "P2012" if theirs["code"] == "P2009" else None}
        is_known = issubclass(kind, getattr(errors, theirs["error"])) and (not theirs["code"] or ours["code"] in codes)
        return is_known and found["changes"] == recorded["changes"]
    return found == recorded


def test_all_chosen_calls_are_recorded():
    assert {json.dumps(line["call"]) for line in LINES} >= CHOSEN


@pytest.mark.asyncio(loop_scope="module")
async def test_a_call_answers_and_writes_what_prismas_engine_does(world):
    different = []
    before = await read_rows(world)
    for line in some(LINES, every=3):
        found = await replay(world, line, before)
        if not is_same(found, line):
            different.append({"engine": line, "ours": found})
    assert different == [], "\n".join(json.dumps(each) for each in different)
