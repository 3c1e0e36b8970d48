"""Asks Prisma's own engine, through Prisma Client Python, what the calls of the tests return, and records it.

npm ci --prefix tests/atlas/prisma_client/engine
python -m tests.atlas.prisma_client.record_engine               makes recorded.json again
python -m tests.atlas.prisma_client.record_engine --random 5000 compares our client with the engine on new calls
"""

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from atlas.db.pool import connect
from atlas.generated import Json, Prisma
from atlas.generated._builder import QueryBuilder, dumps, serializer
from atlas.generated.engine.utils import handle_response_errors
from atlas.prisma_client import AsyncpgPrisma
from atlas.prisma_client.read_schema import parse_schema
from atlas.test_databases import TestDatabases
from tests.atlas.prisma_client.chosen_calls import chosen_calls
from tests.atlas.prisma_client.random_calls import CALLS
from tests.atlas.prisma_client.recording import RECORDED, Call, answer, changes, encoded, plain, read_rows, restore
from tests.atlas.prisma_client.workshop import SCHEMA, SCHEMA_TEXT, TABLES, Workshop

ENGINE = Path(__file__).with_name("engine") / "engine.mjs"
RECORDED_RANDOM_CALLS = 600
_DATASOURCE = '\ndatasource db {\n  provider = "postgresql"\n  url = "unused"\n}\n'


@serializer.register(Json)
def _marked(value: Json) -> str:
    return "json:" + dumps(value.data)


class EngineClient(Prisma):
    """Prisma Client Python as it is, but for the way to its engine."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__(use_dotenv=False)
        self._process = process

    async def _execute(self, **call: Any) -> Any:
        relations = {
            name: {field.name: field.type for field in model.fields.values() if field.relation}
            for name, model in SCHEMA.models.items()
        }
        builder = QueryBuilder(**call, prisma_models=set(SCHEMA.models), relational_field_mappings=relations)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(builder.build_query()).encode() + b"\n")
        response = json.loads(await self._process.stdout.readline())
        if response.get("errors"):
            handle_response_errors(None, response["errors"])
        return response


@asynccontextmanager
async def engine_client(url: str) -> AsyncIterator[EngineClient]:
    """A client on an engine of its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".prisma") as schema:
        schema.write(plain(SCHEMA_TEXT) + _DATASOURCE)
        schema.flush()
        process = await asyncio.create_subprocess_exec(
            "node",
            str(ENGINE),
            schema.name,
            url,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**24,
        )
        try:
            yield EngineClient(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()


@asynccontextmanager
async def database() -> AsyncIterator[str]:
    """A database with the tables of the workshop."""
    folder = Path(tempfile.gettempdir()) / "atlas-prisma-recorder"
    databases = TestDatabases(folder, os.environ.get("DATABASE_URL"))
    await databases.start()
    try:
        async with databases.database() as url:
            conn = await connect(url)
            await conn.execute(f"set search_path = atlas; {plain(TABLES)}")
            await conn.close()
            yield url
    finally:
        databases.stop()


async def answers(conn: Any, client: Prisma, calls: Iterator[Call]) -> AsyncIterator[dict[str, Any]]:
    """Make each call on the same rows."""
    workshop = Workshop(client)
    for call in calls:
        await restore(conn)
        before = await read_rows(conn)
        result = await answer(getattr(workshop, call.model), call)
        yield {"call": encoded(call), "answer": result, "changes": changes(before, await read_rows(conn))}


def random_calls(number: int, *, repeatable: bool) -> list[Call]:
    """So many random calls, all of them different."""
    found: dict[str, Call] = {}

    @settings(
        max_examples=number,
        derandomize=repeatable,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(CALLS)
    def collect(call: Call) -> None:
        found[json.dumps(encoded(call))] = call

    collect()
    return list(found.values())


async def record() -> None:
    """Write what the engine answers."""
    calls = [*chosen_calls(), *random_calls(RECORDED_RANDOM_CALLS, repeatable=True)]
    async with database() as url, engine_client(url) as client:
        conn = await connect(url)
        lines = [json.dumps(line, ensure_ascii=True) async for line in answers(conn, client, iter(calls))]
        await conn.close()
    RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(lines)} calls recorded")


async def compare(number: int) -> int:
    """Print the random calls on which our client and the engine differ, and return their number."""
    calls = random_calls(number, repeatable=False)
    async with database() as url, engine_client(url) as engine:
        conn = await connect(url)
        ours = AsyncpgPrisma.on(conn, schema=parse_schema(plain(SCHEMA_TEXT)))
        differences = 0
        for call in calls:
            [theirs] = [line async for line in answers(conn, engine, iter([call]))]
            [mine] = [line async for line in answers(conn, ours, iter([call]))]
            if theirs != mine:
                differences += 1
                print(json.dumps({"engine": theirs, "ours": mine}))
        await conn.close()
    print(f"{differences} of {len(calls)} calls differ")
    return differences


def main() -> None:
    """Record, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, metavar="NUMBER", help="compare so many random calls, record nothing")
    arguments = parser.parse_args()
    if arguments.random:
        raise SystemExit(asyncio.run(compare(arguments.random)) > 0)
    asyncio.run(record())


if __name__ == "__main__":
    main()
