"""`python -m tests.audit.write_guards`: writes audit/guards.json, the guards as `atlas migrate` leaves them in a new database."""

import asyncio
import tempfile
from pathlib import Path

import orjson

from atlas.audit.guards import EXPECTED, read_guards
from atlas.db.pool import connect
from atlas.test_databases import TestDatabases


async def main() -> None:
    """Migrate a new database, read its guards, and write a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        server = TestDatabases(Path(folder) / "server", None, compact=True)
        await server.start()
        try:
            async with server.database() as url:
                conn = await connect(url)
                try:
                    facts = await read_guards(conn)
                finally:
                    await conn.close()
        finally:
            server.stop()
    EXPECTED.write_text(written(facts))


def written(facts) -> str:
    """The lines of the file, one for each fact, in the same order everywhere."""
    lines = sorted([*key, value] for key, values in facts.items() for value in values)
    return "[\n" + ",\n".join(orjson.dumps(line).decode() for line in lines) + "\n]\n"


if __name__ == "__main__":
    asyncio.run(main())
