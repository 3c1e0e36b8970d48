"""Every way to enqueue beside the application's own statement, in one transaction that is committed or rolled back."""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
import django.conf
import psycopg
import sqlalchemy
from django.db import connections, transaction
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import atlas.integrations.asyncpg
import atlas.integrations.django
import atlas.integrations.psycopg
import atlas.integrations.sqlalchemy
from atlas.engine.jobs.enqueue import Enqueued

OWN = "update invoices set state = 'sent' where id = 7"


class RolledBackError(Exception):
    """Ends a transaction without a commit."""


async def over_asyncpg(url: str, commit: bool, *job: Any, **terms: Any) -> Enqueued:
    conn = await asyncpg.connect(url)
    # An application may have codecs of its own.
    await conn.set_type_codec("jsonb", schema="pg_catalog", encoder=repr, decoder=str)
    try:
        async with conn.transaction():
            await conn.execute(OWN)
            made = await atlas.integrations.asyncpg.enqueue(conn, *job, **terms)
            if not commit:
                raise RolledBackError
    finally:
        await conn.close()
    return made


def over_psycopg(url: str, commit: bool, *job: Any, **terms: Any) -> Enqueued:
    with psycopg.connect(url) as conn:
        conn.execute(OWN)
        made = atlas.integrations.psycopg.enqueue(conn, *job, **terms)
        if not commit:
            raise RolledBackError
    return made


async def over_async_psycopg(url: str, commit: bool, *job: Any, **terms: Any) -> Enqueued:
    async with await psycopg.AsyncConnection.connect(url, row_factory=psycopg.rows.dict_row) as conn:
        await conn.execute(OWN)
        made = await atlas.integrations.psycopg.enqueue_async(conn, *job, **terms)
        if not commit:
            raise RolledBackError
    return made


def in_session(url: str, commit: bool, *job: Any, **terms: Any) -> Enqueued:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with Session(engine) as session, session.begin():
            session.execute(sqlalchemy.text(OWN))
            made = atlas.integrations.sqlalchemy.enqueue(session, *job, **terms)
            if not commit:
                raise RolledBackError
    finally:
        engine.dispose()
    return made


def in_async_session(driver: str) -> Callable[..., Any]:
    async def way(url: str, commit: bool, *job: Any, **terms: Any) -> Enqueued:
        engine = create_async_engine(url.replace("postgresql://", f"postgresql+{driver}://"))
        try:
            async with AsyncSession(engine) as session, session.begin():
                # First: the session has made no statement of its own, and has not begun at the server.
                made = await atlas.integrations.sqlalchemy.enqueue_async(session, *job, **terms)
                await session.execute(sqlalchemy.text(OWN))
                if not commit:
                    raise RolledBackError
        finally:
            await engine.dispose()
        return made

    return way


def in_django(url: str, commit: bool, *job: Any, **terms: Any) -> Enqueued:
    configure_django(url)
    try:
        with transaction.atomic():
            with connections["default"].cursor() as cursor:
                cursor.execute(OWN)
            made = atlas.integrations.django.enqueue(*job, **terms)
            if not commit:
                raise RolledBackError
    finally:
        connections["default"].close()
        del connections["default"]
    return made


def configure_django(url: str) -> None:
    """Let Django use this database."""
    if not django.conf.settings.configured:
        django.conf.settings.configure()
        django.setup()
    parts = urlsplit(url)
    host = parts.hostname or parse_qs(parts.query)["host"][0]
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.removeprefix("/"),
        "USER": parts.username,
        "PASSWORD": parts.password,
        "HOST": unquote(host),
        "PORT": parts.port or "",
    }
    connections.settings = connections.configure_settings({"default": database})


WAYS = {
    "asyncpg": over_asyncpg,
    "psycopg": over_psycopg,
    "psycopg async": over_async_psycopg,
    "sqlalchemy": in_session,
    "sqlalchemy async on asyncpg": in_async_session("asyncpg"),
    "sqlalchemy async on psycopg": in_async_session("psycopg"),
    "django": in_django,
}


async def call(way: Callable[..., Any], *arguments: Any, **terms: Any) -> Enqueued:
    """A way that is not async runs in a thread, as in an application without an event loop."""
    made = await asyncio.to_thread(way, *arguments, **terms)
    return await made if asyncio.iscoroutine(made) else made
