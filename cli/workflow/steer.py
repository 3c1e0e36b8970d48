"""`atlas workflow signal`, `cancel`, `retry` and `fork`: steer a run."""

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from atlas.cli.connection.connect import either
from atlas.cli.connection.over_http_rows import row_of
from atlas.cli.runtime import caller, connected
from atlas.cli.terminal.output import Json, say
from atlas.cli.terminal.parameters import OBJECT, read_object
from atlas.cli.workflow.arguments import RunId, find_listed_run, find_run
from atlas.engine.workflows.events import Published, signal_run
from atlas.engine.workflows.run_actions import cancel_run, fork_run, retry_run
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient


def signal(
    run_id: RunId,
    name: Annotated[str, typer.Argument(help="The name the run waits for.")],
    context: Annotated[str, typer.Option(metavar=OBJECT, help="What it says, a JSON object.")] = "{}",
    json: Json = False,
) -> None:
    """Send an event to one run alone."""

    async def work(settings: Settings) -> Published:
        async with connected(settings) as conn:
            id, facts = await find_run(conn, run_id), read_object("--context", context)
            return await signal_run(conn, id, name, facts, actor=caller())

    async def over_http(atlas: "AtlasClient") -> Published:
        id, facts = await find_listed_run(atlas, run_id), read_object("--context", context)
        return row_of(Published, await atlas.signal_run(id, name, facts))

    published = either(work, over_http)
    effect = "woke it" if published.woken else "is kept until it waits for it"
    say({"id": published.id, "woken": published.woken}, f"The signal {name!r} {effect}.", json=json)


def cancel(run_id: RunId, json: Json = False) -> None:
    """Stop a run and its children."""

    async def work(settings: Settings) -> tuple[UUID, str]:
        async with connected(settings) as conn:
            id = await find_run(conn, run_id)
            return id, await cancel_run(conn, id, actor=caller())

    async def over_http(atlas: "AtlasClient") -> tuple[UUID, str]:
        id = await find_listed_run(atlas, run_id)
        return id, (await atlas.cancel_run(id)).verdict

    id, verdict = either(work, over_http)
    effects = {"canceled": "is canceled", "requested": "was asked to stop", "rejected": "is withdrawn before its start"}
    say({"id": id, "verdict": verdict}, f"Run {id} {effects[verdict]}.", json=json)


def retry(run_id: RunId, json: Json = False) -> None:
    """Let a failed run go on from the step that failed."""

    async def work(settings: Settings) -> UUID:
        async with connected(settings) as conn:
            id = await find_run(conn, run_id)
            await retry_run(conn, id, actor=caller())
            return id

    async def over_http(atlas: "AtlasClient") -> UUID:
        return (await atlas.retry_run(await find_listed_run(atlas, run_id))).id

    id = either(work, over_http)
    say({"id": id, "verdict": "retried"}, f"Run {id} goes on.", json=json)


def fork(
    run_id: RunId,
    step: Annotated[str, typer.Option("--from", metavar="STEP", help="The first step to run anew, as shown.")],
    json: Json = False,
) -> None:
    """Ask for a new run that reuses what this one had recorded before a step."""

    async def work(settings: Settings) -> tuple[UUID, UUID]:
        async with connected(settings) as conn:
            id = await find_run(conn, run_id)
            return id, await fork_run(conn, id, step, actor=caller())

    async def over_http(atlas: "AtlasClient") -> tuple[UUID, UUID]:
        id = await find_listed_run(atlas, run_id)
        return id, (await atlas.fork_run(id, step)).id

    id, forked = either(work, over_http)
    say({"id": forked, "forked_from": id, "step": step}, f"Run {forked} is asked for.", json=json)
