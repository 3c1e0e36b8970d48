"""Running the `atlas` command as its users do: as a process, seen from outside."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import orjson
import pytest

from tests.cli.warm_process import WarmProcess
from tests.pgbouncer import POOLER, direct_url
from tests.state_check import STATE_CHECK
from tests.support import PROOF, ROOT, publish


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it said."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """The one document of a command that was asked for JSON."""
        return orjson.loads(self.stdout)

    @property
    def refusal(self) -> str:
        """The one line of a command that refused; fails where there is anything else."""
        assert self.code == 1, self
        assert self.stdout == "", self
        [line] = self.stderr.splitlines()
        return line


# Logins belong to the server, so another test may have made it before.
MAKE_GUEST = """
do $$ begin
  create role atlas_guest login password 'guest';
exception when duplicate_object or unique_violation then
end $$"""

Atlas = Callable[..., Awaitable[Ran]]


def environment(home: Path, **changes: str | None) -> dict[str, str]:
    """An environment without settings of the machine that runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ATLAS_", "DATABASE_URL"))}
    if POOLER is not None and "ATLAS_LISTEN_DATABASE_URL" in os.environ:
        kept["ATLAS_LISTEN_DATABASE_URL"] = os.environ["ATLAS_LISTEN_DATABASE_URL"]
    wanted = {**kept, "PYTHONPATH": str(ROOT), "ATLAS_HOME": str(home), **changes}
    return {name: value for name, value in wanted.items() if value is not None}


def as_guest(url: str) -> str:
    """The same database for a login that may do nothing of its own."""
    parts = urlsplit(direct_url(url))
    return urlunsplit(parts._replace(netloc=f"atlas_guest:guest@{parts.netloc.rpartition('@')[2]}"))


async def run(argv: list[str], *, cwd: Path, env: dict[str, str], stdin: bytes = b"") -> Ran:
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=cwd,
        env=env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate(stdin)
    assert process.returncode is not None
    return Ran(process.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))


@pytest.fixture(scope="session")
def warm_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmProcess]:
    """A process whose forks are commands."""
    process = WarmProcess(environment(tmp_path_factory.mktemp("warm")))
    yield process
    process.close()


@pytest.fixture
async def known_types(owner: Any) -> None:
    """Types that a worker has published."""
    await publish(owner, "a.work", "report.build", "t", "x.work")


@pytest.fixture
def atlas(tmp_path: Path, database_url: str, known_types: None, warm_process: WarmProcess) -> Atlas:
    """`await atlas("tenant", "list", SETTING="value")`, on a migrated database unless DATABASE_URL says otherwise.

    At full size every command is a process of its own; ordinarily it is a fork, which starts in a twentieth of the time.
    """

    async def call(*arguments: str, stdin: bytes = b"", **settings: str | None) -> Ran:
        env = environment(tmp_path / "home", **{"DATABASE_URL": database_url, **settings})
        async with STATE_CHECK.watching(env.get("DATABASE_URL", ""), f"atlas {' '.join(arguments)}") as refuse:
            ran = await command(arguments, env, stdin)
            if ran.code != 0:
                refuse()
        return ran

    async def command(arguments: tuple[str, ...], env: dict[str, str], stdin: bytes) -> Ran:
        if PROOF or not all(is_text(argument) for argument in arguments):
            return await run(
                [sys.executable, "-P", "-m", "atlas.cli.main", *arguments], cwd=tmp_path, env=env, stdin=stdin
            )
        forked = partial(warm_process.run, list(arguments), cwd=tmp_path, env=env, stdin=stdin)
        code, stdout, stderr = await asyncio.to_thread(forked)
        return Ran(code, stdout.decode(), stderr.decode())

    return call


def is_text(argument: str) -> bool:
    """False for bytes of another encoding, which only a real command line carries."""
    return argument.isascii() or argument.encode(errors="replace").decode() == argument
