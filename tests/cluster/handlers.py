"""What the workers of the cluster's tests run."""

import asyncio
from typing import Any

from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job


@job("cluster.effect")
async def effect(input: dict[str, Any], ctx: JobContext) -> None:
    """Leaves a mark outside of the database, as a call of a provider does."""
    _append(input["file"], str(ctx.job_id))
    # Long enough that some of them run when the leader is killed.
    await asyncio.sleep(0.2)


def _append(file: str, line: str) -> None:
    """In one write, so that those of several workers do not mix."""
    with open(file, "ab", buffering=0) as opened:
        opened.write(f"{line}\n".encode())
