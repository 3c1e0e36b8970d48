"""Dumps one schema of a database and restores it, with the programs of Postgres that come with Atlas."""

import asyncio
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from atlas.errors import AtlasError
from atlas.postgres.pg_ctl import BIN

LOOK_SECONDS = 0.5
_NAME = r'(?:"(?:[^"]|"")+"|\w+)'
GRANT = rf"GRANT .* TO ({_NAME})(?: WITH GRANT OPTION)?;$"
POLICY = rf"CREATE POLICY .*? TO ({_NAME}(?:, {_NAME})*)(?: USING| WITH CHECK|;)"

Progress = Callable[[int], None]


class DumpFailed(AtlasError):
    """pg_dump or pg_restore did not do its work."""


async def dump(url: str, schema: str, file: Path, progress: Progress) -> None:
    """Write a consistent dump of the schema, in the custom format. `progress` gets the bytes written so far."""
    with file.open("wb") as out:
        arguments = ["--format=custom", f"--schema={schema}"]
        await _run("pg_dump", url, arguments, lambda: progress(file.stat().st_size), stdout=out)


async def restore(url: str, file: Path, progress: Progress) -> None:
    """Restore a dump, all of it or nothing."""
    arguments = ["--single-transaction", "--exit-on-error", str(file)]
    await _run("pg_restore", url, arguments, lambda: progress(0))


async def granted_roles(file: Path) -> list[str]:
    """The roles that a dump grants rights to, in its grants and its policies of row-level security."""
    arguments = ("--schema-only", "--no-owner", "--file=-", str(file))
    process = await asyncio.create_subprocess_exec(
        str(BIN / "pg_restore"), *arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    text, said = await process.communicate()
    if process.returncode != 0:
        raise DumpFailed(f"pg_restore cannot read {file}: {said.decode(errors='replace').strip()}")
    names = {name for line in text.decode().splitlines() for name in grantees(line)}
    return sorted(names - {"PUBLIC"})


def grantees(line: str) -> list[str]:
    """The roles of one statement of a dump. What functions execute is not at the beginning of a line."""
    found = re.match(GRANT, line) or re.match(POLICY, line)
    names = [] if found is None else re.findall(_NAME, found[1])
    return [name[1:-1].replace('""', '"') if name.startswith('"') else name for name in names]


async def _run(
    program: str, url: str, arguments: list[str], look: Callable[[], None], stdout: object = subprocess.DEVNULL
) -> None:
    address, password = _without_password(url)
    process = await asyncio.create_subprocess_exec(
        str(BIN / program),
        f"--dbname={address}",
        *arguments,
        stdin=subprocess.DEVNULL,
        stdout=stdout,  # type: ignore[arg-type]  # a file
        stderr=subprocess.PIPE,
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", **password},
    )
    reading = asyncio.create_task(process.communicate())
    try:
        while not (await asyncio.wait([reading], timeout=LOOK_SECONDS))[0]:
            look()
    except BaseException:
        process.kill()
        raise
    said = (await reading)[1].decode(errors="replace").strip().splitlines()
    if process.returncode != 0:
        cause = next((line for line in said if "error:" in line), said[-1] if said else f"status {process.returncode}")
        raise DumpFailed(
            f"{program} failed: {cause.partition('error: ')[2] or cause}",
            remedy="The login needs to own Atlas's tables: set ATLAS_OWNER_URL. Nothing was kept of what it began.",
        )


def _without_password(url: str) -> tuple[str, dict[str, str]]:
    """The address, and the password for the environment: everyone on the machine can read a program's arguments."""
    parts = urlsplit(url)
    if parts.password is None:
        return url, {}
    login, _, server = parts.netloc.rpartition("@")
    address = parts._replace(netloc=f"{login.partition(':')[0]}@{server}")
    return urlunsplit(address), {"PGPASSWORD": unquote(parts.password)}
