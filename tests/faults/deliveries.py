"""The delivery of webhooks under faults: a worker, and the server that it calls."""

import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from atlas.db.pool import connect
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.secrets.key import load_key, use_secret_key
from atlas.engine.webhooks.deliver import deliver_events
from atlas.engine.webhooks.store import add_webhook
from tests.faults.capability import Capability
from tests.faults.effects import note
from tests.faults.judge import Evidence
from tests.faults.program import EXPIRE_WORKERS, Program
from tests.support import DANA, given_tenant
from tests.workers.http_call.receiver import Receiver

COUNT = 3
KEY = "0" * 64
NETWORKS = {"ATLAS_HTTP_ALLOWED_NETWORKS": "127.0.0.0/8"}
# The programs have the folder of the case as their working folder.
DELIVERY_SETTINGS = {**NETWORKS, "ATLAS_SECRET_KEY_FILE": "secret.key"}


# The cases that use key and networks now: they are the same for all, and the process has one of each.
_using: list[Path] = []
_networks = patch.dict(os.environ, NETWORKS)


@contextmanager
def using_key(key: Path) -> Iterator[None]:
    if not _using:
        use_secret_key(load_key(key))
        _networks.start()
    _using.append(key)
    try:
        yield
    finally:
        _using.remove(key)
        if not _using:
            _networks.stop()
            use_secret_key(None)


def put_key(folder: Path) -> Path:
    """The file of the key that the programs of a case have."""
    file = folder / "secret.key"
    file.write_text(KEY)
    return file


@asynccontextmanager
async def receive(url: str, folder: Path) -> AsyncIterator[None]:
    """A server that notes what it gets, and deliveries to it that wait."""
    conn = await connect(url)
    key = put_key(folder)
    receiver = Receiver()
    async with receiver.running():
        tenant_id = await given_tenant(conn, "hooks")
        with using_key(key):
            await add_webhook(conn, tenant_id, receiver.url, ("job.canceled",), actor=DANA)
        jobs = [NewJob("a.work", {"n": n}, tenant_id, allow_unknown=True) for n in range(COUNT)]
        await enqueue_many(conn, jobs, actor=DANA)
        await change_many(conn, "cancel", [job.id for job in jobs], actor=DANA, tenant_id=None)
        while await deliver_events(conn):
            pass
        await conn.close()
        yield
    for request in receiver.received:
        note("received", path=folder / "effects", key=request.headers["webhook-id"])


async def each_is_delivered(evidence: Evidence) -> list[str]:
    """Every delivery arrives, and arrives again only with another attempt."""
    received = Counter(effect.key for effect in evidence.effects if effect.what == "received")
    rows = await evidence.conn.fetch(
        "select id::text, status::text, attempt_count from atlas.jobs where job_type = 'HTTP_CALL'"
    )
    broken = [] if len(rows) == COUNT else [f"{len(rows)} deliveries of {COUNT} events"]
    return broken + [
        f"delivery {row['id']} is {row['status']} at attempt {row['attempt_count']} and arrived {received[row['id']]} times"
        for row in rows
        if row["status"] != "succeeded" or not 1 <= received[row["id"]] <= row["attempt_count"]
    ]


async def give_nothing(conn: Any) -> None:
    """The deliveries are made when there is a server for them."""


WEBHOOKS = Capability(
    "webhooks", give_nothing, (each_is_delivered,), receive, types=("HTTP_CALL",), needs_installation=True
)
DELIVERIES = (
    Program(
        "webhooks",
        ("worker", "--types", "HTTP_CALL", "--concurrency", "2", "--poll-ms", "100"),
        give_nothing,
        "select not exists (select from atlas.jobs where job_type = 'HTTP_CALL' and status in ('queued', 'running'))",
        (each_is_delivered,),
        serves=True,
        expire=EXPIRE_WORKERS,
        beside=receive,
        settings={
            **DELIVERY_SETTINGS,
            "ATLAS_LEASE_SECONDS": "30",
            "ATLAS_GRACE_SECONDS": "1",
        },
    ),
)
