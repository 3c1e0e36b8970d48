"""Command jobs under test: small real programs, in a folder that the unprivileged user of a command can reach."""

import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest

from atlas.db.pool import Pool
from atlas.engine.admission import enqueue_definition
from atlas.engine.commands.definitions import add_definition
from atlas.engine.jobs.lists.find import get_job, list_attempts
from atlas.engine.secrets.key import SecretKey, use_secret_key
from atlas.workers.commands.types import load_command_types
from tests.support import DANA

# Prints exactly what it was started with: the kernel's own record, not what a shell makes of it.
RECORDER = """#!/bin/sh
base64 -w0 /proc/$$/cmdline; echo; base64 -w0 /proc/$$/environ; echo; id -u; pwd; readlink /proc/$$/fd/0
"""


@pytest.fixture(autouse=True)
def own_key() -> Iterator[None]:
    use_secret_key(SecretKey(bytes(32)))
    yield
    use_secret_key(None)


@pytest.fixture
def program() -> Iterator[Callable[[str, str], str]]:
    """Write a program and return its path. pytest's own folders are closed to other users."""
    folder = Path(tempfile.mkdtemp(prefix="atlas-programs-"))
    folder.chmod(0o755)

    def write(name: str, text: str) -> str:
        path = folder / name
        path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    yield write
    shutil.rmtree(folder)


@pytest.fixture
def define(pool: Pool, program: Any) -> Callable[..., Awaitable[str]]:
    """Define a command by the text of its program; returns its key."""

    async def make(key: str, text: str, *argv: Any, fields: dict[str, Any] | None = None, **terms: Any) -> str:
        properties = fields or {}
        schema = {"type": "object", "properties": properties, "required": terms.pop("required", list(properties))}
        described = {"key": key, "argv": [program(key, text), *argv], "arg_schema": schema, **terms}
        async with pool.acquire() as conn:
            await add_definition(conn, described, actor=DANA)
        return key

    return make


@pytest.fixture
def order(pool: Pool) -> Callable[..., Awaitable[UUID]]:
    """Enqueue a job of a definition."""

    async def make(key: str, payload: dict[str, Any] | None = None, **options: Any) -> UUID:
        async with pool.acquire() as conn:
            return (await enqueue_definition(conn, key, payload or {}, actor=DANA, **options)).id

    return make


@pytest.fixture
def run_commands(drain: Any) -> Callable[..., Awaitable[Any]]:
    """Run a worker that serves commands until nothing is due."""

    async def run(**chosen: Any) -> Any:
        return await drain("test.noop", **{"load_types": load_command_types, **chosen})

    return run


@pytest.fixture
def story(pool: Pool) -> Callable[[UUID], Awaitable[tuple[Any, Any]]]:
    """A job and its last attempt."""

    async def tell(job_id: UUID) -> tuple[Any, Any]:
        listed = await list_attempts(pool, job_id)
        return await get_job(pool, job_id), listed[-1] if listed else None

    return tell


@pytest.fixture
def dump(pool: Pool, owner: Any) -> Callable[[], Awaitable[bytes]]:
    """Everything the database holds, as text, and what is binary as the bytes it is."""

    async def read() -> bytes:
        tables = await owner.fetch("select tablename from pg_tables where schemaname = 'atlas'")
        found = []
        for table in tables:
            for row in await owner.fetch(f'select t.* from atlas."{table["tablename"]}" t'):
                found += [
                    value if isinstance(value, bytes) else orjson.dumps(value, default=str) for value in row.values()
                ]
        return b"\n".join(found)

    return read
