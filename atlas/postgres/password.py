"""The passwords of the embedded server: local users are asked for one, also those who reach its socket.

A file of mode 600 in the home has the superuser's. The password of the programs' login is derived from it, so that it
can be given to other programs on its own. Both are 256 bits, so one round of hashing is enough.
"""

import asyncio
import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path

import asyncpg

from atlas.db.schema import role
from atlas.errors import EmbeddedPostgresError
from atlas.postgres.as_root import give_to_server

FILE = "postgres.password"
SUPERUSER = "postgres"
_FORGET = """
do $$ begin
  if exists (select from pg_roles where rolname = '{login}') then
    alter role {login} password null;
  end if;
end $$"""
# The method at the end of a line; comments are left alone.
_TRUST = re.compile(r"^([^#\n]*\s)trust[ \t]*$", re.MULTILINE)


def password_of(home: Path, login: str) -> str | None:
    """The password of a login of the server in this home; None where its server asks for none."""
    try:
        own = (home / FILE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    return own if login == SUPERUSER else hmac.new(own.encode(), login.encode(), hashlib.sha256).hexdigest()


def protect_server(home: Path, data: Path, url: str) -> None:
    """Have the server ask for passwords, if it trusts its local users. The caller holds the lock of its start.

    A server that asks for one while the file is gone cannot be used.
    """
    if not _asks_for_password(data):
        asyncio.run(_protect(home, data, url))
    elif not (home / FILE).exists():
        raise EmbeddedPostgresError(
            f"The embedded Postgres asks for a password, and its file {home / FILE} is gone.",
            remedy="Put it back. If it is lost, stop Atlas, write `trust` for the `local` lines of"
            f" {data / 'pg_hba.conf'}, and start again: a new password is made.",
        )


def _asks_for_password(data: Path) -> bool:
    """Whether no line of the server's access rules trusts a login."""
    return _TRUST.search((data / "pg_hba.conf").read_text(encoding="utf-8")) is None


def _make_password(home: Path) -> None:
    """Make the file, unless it is there: complete, or not at all."""
    if (home / FILE).exists():
        return
    scratch = home / f".{FILE}"
    scratch.unlink(missing_ok=True)
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{secrets.token_hex(32)}\n")
        file.flush()
        os.fsync(file.fileno())
    scratch.rename(home / FILE)


async def set_password(conn: asyncpg.Connection, login: str, password: str) -> None:
    """Set the password of a login."""
    async with conn.transaction():
        await conn.execute("set local password_encryption = 'scram-sha-256'; set local scram_iterations = 1")
        await conn.execute(f"alter role \"{login}\" password '{password}'")


async def _protect(home: Path, data: Path, url: str) -> None:
    """Repeating it after a crash is harmless."""
    _make_password(home)
    password = password_of(home, SUPERUSER)
    assert password is not None
    conn = await asyncpg.connect(url, password=password)
    try:
        await set_password(conn, SUPERUSER, password)
        # Derived from a file that was lost, perhaps; without one it is set again.
        await conn.execute(_FORGET.format(login=role("app")))
        rules = data / "pg_hba.conf"
        scratch = data / "pg_hba.conf.new"
        scratch.write_text(_TRUST.sub(r"\1scram-sha-256", rules.read_text(encoding="utf-8")))
        scratch.chmod(0o600)
        give_to_server(scratch)
        scratch.rename(rules)
        await conn.execute("select pg_reload_conf()")
    finally:
        await conn.close()
