"""Calls to an API that misbehaves: when they are repeated, for how long, and with which error in the end."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from atlas import errors
from atlas.client import ApiError, ApiTooManyRequests, AtlasClient, JobRequest, RetryBudget, Unavailable, Unreachable

QUICK = RetryBudget(tries=8, seconds=10, first_pause=0.02, max_pause=0.2)

Answers = Callable[[int], tuple[int, dict[str, str], Any]]


@asynccontextmanager
async def answering(answers: Answers) -> AsyncIterator[tuple[str, list[dict[str, str]]]]:
    """A server with scripted responses; yields the headers of the requests it got."""
    heard: list[dict[str, str]] = []

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            headers = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:] if line)
            await reader.readexactly(int(headers.get("content-length", "0")))
            heard.append(headers)
            status, extra, document = answers(len(heard))
            body = document.encode() if isinstance(document, str) else json.dumps(document).encode()
            lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", *(f"{k}: {v}" for k, v in extra.items())]
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    async def quietly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve_one(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    listening = await asyncio.start_server(quietly, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", heard
    finally:
        listening.close()


def problem(kind: str, status: int, detail: str = "No.") -> dict[str, Any]:
    return {"type": f"urn:atlas:problem:{kind}", "title": "x", "status": status, "detail": detail, "errors": []}


MADE = {
    "id": str(uuid4()),
    "tenant_id": str(uuid4()),
    "status": "queued",
    "job_type": "x.work",
    "queued_at": "2026-11-15T02:14:07Z",
    "deduplicated": False,
}


async def test_a_server_that_is_not_atlas_is_an_error():
    for answer in ((200, {}, "<html>"), (302, {"location": "/login"}, ""), (404, {}, "nginx"), (200, {}, {"a": 1})):
        async with answering(lambda _, answer=answer: answer) as (url, _heard):
            async with AtlasClient(url, "t", retry=QUICK) as atlas:
                with pytest.raises(ApiError, match=f"from {url} is not one of Atlas"):
                    await atlas.get_gate()


async def test_a_response_that_cannot_be_decoded_is_an_error():
    async with answering(lambda _: (200, {"content-encoding": "gzip"}, "not gzip")) as (url, heard):
        async with AtlasClient(url, "t", retry=RetryBudget(tries=2, first_pause=0.01)) as atlas:
            with pytest.raises(Unreachable) as received:
                await atlas.get_gate()
    assert (received.value.may_be_done, len(heard)) == (True, 2)


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8080", "ftp://x", "http://", "http://user:word@x", "http://x:port", "http://x:99999", "http://x/#y"],
)
async def test_an_address_that_cannot_be_one_is_refused_at_once(url):
    with pytest.raises(errors.SettingsError, match="address"):
        AtlasClient(url, "t")


@pytest.mark.parametrize("token", ["", "two words", "line\n", "schlüssel"])
async def test_a_token_that_cannot_be_one_is_refused_without_being_shown(token):
    with pytest.raises(errors.SettingsError) as refused:
        AtlasClient("http://127.0.0.1:1", token)
    assert not token or token not in str(refused.value)


async def test_a_call_is_repeated_under_one_key_until_there_is_a_response():
    def answers(nth: int) -> tuple[int, dict[str, str], Any]:
        if nth == 1:
            return 429, {"retry-after": "0"}, problem("too-many-requests", 429)
        return (201, {}, MADE) if nth == 4 else (503, {}, problem("unavailable", 503))

    async with answering(answers) as (url, heard), AtlasClient(url, "t", retry=QUICK) as atlas:
        made = await atlas.enqueue(JobRequest(job_type="x.work"))

    assert str(made.id) == MADE["id"]
    assert len(heard) == 4
    assert len({headers["idempotency-key"] for headers in heard}) == 1


async def test_the_last_error_is_raised_when_the_retry_budget_is_spent():
    async with answering(lambda _: (503, {}, problem("unavailable", 503, "The database is away."))) as (url, heard):
        async with AtlasClient(url, "t", retry=RetryBudget(tries=3, first_pause=0.01)) as atlas:
            with pytest.raises(Unavailable, match="The database is away"):
                await atlas.get_gate()
    assert len(heard) == 3


async def test_a_retry_after_beyond_the_retry_budget_is_not_waited_for():
    async with answering(lambda _: (429, {"retry-after": "3600"}, problem("too-many-requests", 429))) as (url, heard):
        async with AtlasClient(url, "t", retry=QUICK) as atlas:
            with pytest.raises(ApiTooManyRequests) as refused:
                await atlas.get_gate()
    assert (refused.value.after, len(heard)) == (3600, 1)


async def test_a_retry_after_is_honoured():
    async def timed(after: str) -> float:
        def answers(nth: int) -> tuple[int, dict[str, str], Any]:
            return (429, {"retry-after": after}, problem("x", 429)) if nth == 1 else (201, {}, MADE)

        async with answering(answers) as (url, _heard), AtlasClient(url, "t", retry=QUICK) as atlas:
            began = time.monotonic()
            await atlas.enqueue(JobRequest(job_type="x.work"))
            return time.monotonic() - began

    assert 1.0 <= await timed("1") < 2
    assert await timed("Thu, 01 Jan 1970 00:00:00 GMT") < 1


async def test_an_unreachable_api_is_an_error_after_the_last_try():
    async with AtlasClient("http://127.0.0.1:1", "t", retry=RetryBudget(tries=2, first_pause=0.01)) as atlas:
        with pytest.raises(Unreachable, match="There is no response from http://127.0.0.1:1"):
            await atlas.get_gate()
        with pytest.raises(Unreachable):
            await anext(aiter(atlas.live()))
