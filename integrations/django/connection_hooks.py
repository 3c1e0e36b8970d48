"""Keeps Django's connections usable in workers, as Django itself does around requests.

Django closes stale connections when a request begins and when it ends. A worker has no requests: a connection that the
server has closed would stay in its thread, and every later job of that thread would fail.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, reset_queries

from atlas.engine.jobs.handlers.around_job import around_job


def register_hooks() -> None:
    """Register both hooks. Django must be set up: importing this module alone registers nothing."""
    around_job(close_stale_connections)
    around_job(use_thread_of_its_own)


def close_stale_connections() -> Iterator[None]:
    """Close what is stale before a plain function, in its thread, and what is past CONN_MAX_AGE after it."""
    reset_queries()
    close_old_connections()
    # Without CONN_HEALTH_CHECKS Django notices a connection that the server has closed by the first query that fails.
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and not connection.is_usable():
            connection.close()
    try:
        yield
    finally:
        close_old_connections()


async def use_thread_of_its_own() -> AsyncIterator[None]:
    """Give an async function a thread for its queries, as Django's ASGI handler does, and close its connections.

    Otherwise all async jobs of the process would share one thread and one connection.
    """
    thread: AbstractAsyncContextManager[Any] = ThreadSensitiveContext()
    await thread.__aenter__()
    try:
        yield
    finally:
        # Behind a query that still runs. A job that is canceled meanwhile does not wait for it any longer, nor may the
        # context, which would hold the event loop: the thread then ends when the query has.
        await asyncio.shield(sync_to_async(connections.close_all)())
        await thread.__aexit__(None, None, None)
