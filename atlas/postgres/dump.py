"""Dumps one schema of a database and restores it, with the programs of Postgres that come with Atlas."""

import asyncio
import os
import re
import subprocess
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from atlas.db.lost_response import end_sessions, sessions_are_idle
from atlas.db.pool import connect
from atlas.errors import AtlasError
from atlas.postgres.pg_ctl import BIN

LOOK_SECONDS = 0.5
# How long a program may write nothing before the server is asked about it, and how often it is found idle then.
SILENT_SECONDS = 15.0
MAX_IDLE_LOOKS = 3
CONNECT_SECONDS = 10
CHUNK_BYTES = 2**20
# pg_restore sets this before anything else; servers before 17 do not have it.
TIMEOUT = b"SET transaction_timeout = 0;\n"
TIMEOUT_IF_KNOWN = (
    b"SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout';\n"
)
# The first statement after the settings. The schema is there already.
CREATE_SCHEMA = b"CREATE SCHEMA "
LAST_SETTING = b"SET row_security = "
# How the sessions of restores are named: each has a name of its own that begins with this.
RESTORE_SESSIONS = "atlas restore "
# Owners and policies name the logins of the server that was dumped.
WITHOUT_LOGINS = ("--no-owner", "--no-policies")
_NAME = r'(?:"(?:[^"]|"")+"|\w+)'
GRANT = rf"GRANT .* TO ({_NAME})(?: WITH GRANT OPTION)?;$"
OWNER_REMEDY = "Let ATLAS_OWNER_URL name the login that ran `atlas migrate`, or a superuser."

# Why a server could not be asked.
_NOT_ASKED = (TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError, AtlasError)

Progress = Callable[[int], None]


class DumpFailed(AtlasError):
    """A program of Postgres did not do its work."""


async def dump(
    url: str,
    schema: str,
    file: Path,
    progress: Progress,
    *,
    snapshot: str | None = None,
    without_rows_of: Sequence[str] = (),
) -> None:
    """Write a consistent dump of the rows that the login sees, in the custom format.

    `progress` gets the bytes written so far. The caller makes sure that the login sees all rows.
    """
    without = [f"--exclude-table-data={_pattern(schema, table)}" for table in without_rows_of]
    chosen = [] if snapshot is None else [f"--snapshot={snapshot}"]
    await _dump(url, file, progress, f"--schema={schema}", *chosen, *without)


async def dump_tables(
    url: str, schema: str, tables: Sequence[str], file: Path, progress: Progress, *, snapshot: str
) -> None:
    """Write a dump of the rows of these tables."""
    chosen = [f"--table={_pattern(schema, table)}" for table in tables]
    await _dump(url, file, progress, "--data-only", f"--snapshot={snapshot}", *chosen)


async def _dump(url: str, file: Path, progress: Progress, *arguments: str) -> None:
    with file.open("wb") as out:
        session = _Session(url, "atlas dump ")
        options = ("--format=custom", "--enable-row-security")
        process = await _start("pg_dump", *options, *arguments, session=session, stdout=out)
        assert process.stderr is not None
        watch = _Watch(session, lambda: file.stat().st_size, progress)
        errors = await watch.wait(process.stderr.read(), process)
    await _require_success("pg_dump", process, errors)


async def restore(url: str, file: Path, progress: Progress, *, parts: Sequence[Path] = ()) -> None:
    """Restore a dump into its schema, which is there and empty: all of it or nothing.

    `parts` have the rows of tables that it has without theirs, which come before the indexes. Everything belongs to the
    login afterwards, without row-level security: see `secure_tables`. `progress` gets the bytes of SQL that were run.
    """
    scripts = [
        ("--section=pre-data", "--section=data", str(file)),
        *(("--data-only", str(part)) for part in parts),
        ("--section=post-data", str(file)),
    ]
    commands = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-")
    session = _Session(url, RESTORE_SESSIONS)
    writer = await _start("psql", *commands, session=session, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert writer.stdin is not None
    assert writer.stderr is not None
    copied = [0]
    watch = _Watch(session, lambda: copied[0], progress)
    said = asyncio.ensure_future(writer.stderr.read())
    # Not psql's own way, which commits what it has when its input ends, also because this process was killed.
    writer.stdin.write(b"BEGIN;\n")
    for script in scripts:
        reader = await _start("pg_restore", "--file=-", *WITHOUT_LOGINS, *script)
        assert reader.stderr is not None
        work = asyncio.gather(_copy(reader, writer, copied, creates=script is scripts[0]), reader.stderr.read())
        complete, read_errors = await watch.wait(work, reader, writer)
        if not complete:
            break
    else:
        writer.stdin.write(b"COMMIT;\n")
        writer.stdin.close()
    write_errors = await watch.wait(said, writer)
    if await writer.wait() > 0:
        await _require_success("psql", writer, write_errors)
    await _require_success("pg_restore", reader, read_errors)


async def granted_roles(file: Path) -> list[str]:
    """The roles that a dump grants rights to."""
    process = await _start("pg_restore", "--schema-only", "--file=-", *WITHOUT_LOGINS, str(file))
    text, errors = await process.communicate()
    await _require_success("pg_restore", process, errors)
    names = {name for line in text.decode().splitlines() if (name := grantee(line)) is not None}
    return sorted(names - {"PUBLIC"})


def grantee(line: str) -> str | None:
    """The role of a grant in a dump; None for other lines. What functions execute is not at the beginning of a line."""
    match = re.match(GRANT, line)
    if match is None:
        return None
    name = match[1]
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


async def _copy(reader: Process, writer: Process, copied: list[int], *, creates: bool) -> bool:
    """Let psql run what pg_restore prints; stop it where pg_restore fails. Returns whether it ran all of it.

    The schema of a script that `creates` it is there already.
    """
    assert reader.stdout is not None
    assert writer.stdin is not None
    last = CREATE_SCHEMA if creates else LAST_SETTING
    with suppress(ConnectionError):  # psql has ended, and says why
        while (line := await reader.stdout.readline()) and not line.startswith(last):
            writer.stdin.write(TIMEOUT_IF_KNOWN if line == TIMEOUT else line)
        if not creates:
            writer.stdin.write(line)
        while chunk := await reader.stdout.read(CHUNK_BYTES):
            writer.stdin.write(chunk)
            await writer.stdin.drain()
            copied[0] += len(chunk)
        if await reader.wait() == 0:
            return True
    for process in (reader, writer):
        if process.returncode is None:
            process.kill()
    return False


class _Session:
    """The session of a program of Postgres, under a name of its own."""

    def __init__(self, url: str, prefix: str) -> None:
        self.url = url
        self.name = f"{prefix}{uuid4()}"

    async def is_idle(self) -> bool:
        """Whether the server waits for the program, or cannot be asked."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await sessions_are_idle(await connect(self.url), self.name)
        except _NOT_ASKED:
            return True

    async def end(self) -> None:
        """End it at the server, which does not hear of the program's end: it would keep its locks."""
        with suppress(*_NOT_ASKED):
            async with asyncio.timeout(CONNECT_SECONDS):
                await end_sessions(await connect(self.url), self.name)


async def _start(program: str, *arguments: str, session: _Session | None = None, **pipes: Any) -> Process:
    address, password = ((), {}) if session is None else _without_password(session.url)
    name = {} if session is None else {"PGAPPNAME": session.name, "PGCONNECT_TIMEOUT": str(CONNECT_SECONDS)}
    return await asyncio.create_subprocess_exec(
        str(BIN / program),
        *address,
        *arguments,
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **pipes},
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", **name, **password},
    )


def _pattern(schema: str, table: str) -> str:
    """The name of a table where a program of Postgres expects a pattern."""
    return f'"{schema}"."{table}"'


class _Watch:
    """Looks at the work of processes now and then. One that waits for an idle server has lost a response."""

    def __init__(self, session: _Session, size: Callable[[], int], progress: Progress) -> None:
        self._session = session
        self._size = size
        self._progress = progress

    async def wait(self, work: Any, *processes: Process) -> Any:
        """Wait for some work of these processes. Whatever ends the wait ends them."""
        working = asyncio.ensure_future(work)
        try:
            idle, size, looked_at = 0, -1, time.monotonic()
            while not (await asyncio.wait([working], timeout=LOOK_SECONDS))[0]:
                before, size = size, self._size()
                self._progress(size)
                if size != before:
                    idle, looked_at = 0, time.monotonic()
                elif time.monotonic() - looked_at > SILENT_SECONDS:
                    idle = idle + 1 if await self._session.is_idle() else 0
                    looked_at = time.monotonic()
                if idle == MAX_IDLE_LOOKS:
                    await self._session.end()
                    raise DumpFailed(
                        "A response of the server was lost: the server waits for the program, and the program for it.",
                        remedy="Look at what stands between them, such as a proxy or a tunnel, and run it again.",
                    )
            return await working
        except BaseException:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await _kill(processes)
            raise


async def _kill(processes: Sequence[Process]) -> None:
    """End processes, and free what they hold. One that nothing reads from any more would not be seen to end."""
    for process in processes:
        if process.returncode is None:
            process.kill()
    for process in processes:
        if process.stdout is not None:
            await process.stdout.read()
        await process.wait()


async def _require_success(program: str, process: Process, errors: bytes) -> None:
    if await process.wait() == 0:
        return
    said = errors.decode(errors="replace").strip().splitlines()
    cause = next((line for line in said if "error:" in line.lower()), said[-1] if said else "")
    cause = cause.partition("error: ")[2] or cause.partition("ERROR:  ")[2] or cause
    raise DumpFailed(
        f"{program} failed: {cause or f'exit status {process.returncode}'}.",
        remedy=f"If it lacks a right: {OWNER_REMEDY} Nothing was kept of what it began.",
    )


def _without_password(url: str) -> tuple[tuple[str], dict[str, str]]:
    """The address, and the password for the environment: everyone on the machine can read a program's arguments."""
    parts = urlsplit(url)
    if parts.password is None:
        return (f"--dbname={url}",), {}
    login, _, server = parts.netloc.rpartition("@")
    address = parts._replace(netloc=f"{login.partition(':')[0]}@{server}")
    return (f"--dbname={urlunsplit(address)}",), {"PGPASSWORD": unquote(parts.password)}
