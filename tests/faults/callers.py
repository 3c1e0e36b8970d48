"""Programs that are an API with all of its middleware, and its one caller."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import orjson
from fastapi import FastAPI

from atlas.api.app import create_app
from atlas.audit.sealing.sealer import seal_and_sign
from atlas.db.pool import borrow, open_pool
from atlas.engine.webhooks.inbound import load_secret
from atlas.engine.webhooks.signature import sign
from atlas.settings import load_settings
from atlas.workers.tick import Ticker

TOKEN = "the operator of the fault suite"
RESPONSE = "response.json"
TAKEN = 409


def send() -> None:
    """Send the request of the arguments: method, path, body, Idempotency-Key or nothing."""
    asyncio.run(_send(*sys.argv[1:]))


def report() -> None:
    """The same about a leased job: 409 says that the attempt has ended, and that its machine goes on."""
    asyncio.run(_send(*sys.argv[1:], settled=TAKEN))


def tick() -> None:
    """Have the API run what is due. It knows one job type."""
    import tests.faults.clients  # noqa: F401

    send()


async def _send(method: str, path: str, body: str, key: str, settled: int | None = None) -> None:
    async with _reach_api() as (client, _):
        headers = {"Authorization": f"Bearer {TOKEN}"} | ({"Idempotency-Key": key} if key else {})
        response = await client.request(method, path, json=orjson.loads(body) if body else None, headers=headers)
        # What a client sends again: no response, or one that says so.
        if response.is_error and response.status_code != settled:
            raise RuntimeError(f"{response.status_code} {response.text}")
        _keep(response)


def send_message() -> None:
    """Post a signed message to the hook of the argument."""
    asyncio.run(_send_message(sys.argv[1]))


async def _send_message(key: str) -> None:
    body = orjson.dumps({"n": 1})
    async with _reach_api() as (client, app):
        async with borrow(app.state.api.db.pool, within=60) as conn:
            hook = await load_secret(conn, key)
        assert hook is not None
        headers = sign(hook.secrets, "msg_1", int(time.time()), body) | {"Content-Type": "application/json"}
        response = await client.post(f"http://atlas.test/hooks/{key}", content=body, headers=headers)
        _keep(response.raise_for_status())


def sign_out() -> None:
    """Sign in with the token, and sign out."""
    asyncio.run(_sign_out())


async def _sign_out() -> None:
    async with _reach_api() as (client, _):
        signed_in = (await client.post("/session", json={"token": TOKEN})).raise_for_status().json()
        headers = {"X-CSRF-Token": signed_in["csrf_token"], "Origin": "http://atlas.test"}
        response = await client.delete("/session", headers=headers)
        _keep(response.raise_for_status())


def verify() -> None:
    """Start a verification, and wait for its end."""
    asyncio.run(_verify())


async def _verify() -> None:
    async with _reach_api() as (client, app):
        # There is no key before the first signature.
        await seal_and_sign(app.state.api.db.pool, app.state.api.settings)
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        response = (await client.post("/audit/verifications")).raise_for_status()
        place = f"/audit/verifications/{response.json()['id']}"
        while (response := (await client.get(place)).raise_for_status()).json()["status"] == "running":
            await asyncio.sleep(0.1)
        await app.state.background.stop()
        if response.json()["status"] != "whole":
            raise RuntimeError(response.text)
        _keep(response)


@asynccontextmanager
async def _reach_api() -> AsyncIterator[tuple[httpx.AsyncClient, FastAPI]]:
    settings = load_settings()
    assert settings.database_url is not None
    pool = await open_pool(settings.database_url, size=4)
    try:
        app = create_app(settings, pool, settings.database_url, tick=Ticker(settings))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://atlas.test/api/v1", timeout=300) as client:
            yield client, app
    finally:
        await pool.close()


def _keep(response: httpx.Response) -> None:
    Path(RESPONSE).write_bytes(response.content or b"{}")
