"""`atlas sign-in`, and what it shares with `atlas up`: the operator token, and a link for one sign-in."""

import os
from pathlib import Path

from atlas.actors import Actor
from atlas.cli.programs.ports import http_address
from atlas.cli.runtime import caller, connected, execute
from atlas.cli.terminal.output import Json, say
from atlas.db.pool import Connection
from atlas.engine.access.sessions import make_link
from atlas.engine.access.tokens import add_token, authenticate, ensure_operator_token
from atlas.errors import Conflict, SettingsError
from atlas.home.private_folder import make_private
from atlas.home.up_report import OPERATOR_TOKEN, api_address
from atlas.settings import Settings


def sign_in(json: Json = False) -> None:
    """Print a link that signs an operator in to the web pages, once within 15 minutes."""

    async def work(settings: Settings) -> str:
        address = api_address(settings.home) or http_address(settings.atlas_host, settings.atlas_port)
        async with connected(settings) as conn:
            token = await operator_token(conn, settings, actor=caller())
            return f"{address}/{await sign_in_link(conn, token, actor=caller())}"

    link = execute(work)
    say({"sign_in": link}, link, json=json)


async def sign_in_link(conn: Connection, clear: str, *, actor: Actor) -> str:
    """The end of an address that signs in, once, as the holder of a token."""
    token = await authenticate(conn, clear)
    if token is None:
        raise Conflict("The operator token is no longer valid.", remedy="Start `atlas up` again: it makes a new one.")
    return f"#sign-in={await make_link(conn, token, actor=actor)}"


async def operator_token(conn: Connection, settings: Settings, *, actor: Actor) -> str:
    """The operator token: the one in the settings, or the one kept in ATLAS_HOME, made at the first start."""
    if settings.atlas_operator_token is not None:
        await ensure_operator_token(conn, settings.atlas_operator_token, actor=actor)
        return settings.atlas_operator_token
    file = settings.home / OPERATOR_TOKEN
    try:
        kept = file.read_text(encoding="utf-8").strip() if file.exists() else ""
        if kept and await authenticate(conn, kept) is not None:
            return kept
        _, clear = await add_token(conn, subject="operator", role="operator", actor=actor)
        _write_secret(file, clear)
    except OSError as error:
        raise SettingsError(
            f"{file} cannot be used: {error.strerror}.",
            remedy="Make the folder writable, or set ATLAS_HOME to one that is.",
        ) from error
    return clear


def _write_secret(file: Path, text: str) -> None:
    make_private(file.parent)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
        handle.write(text + "\n")
