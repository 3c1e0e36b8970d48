"""`atlas workflow signal`, `cancel`, `retry` and `fork`: steer a run."""

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, say
from atlas.cli.terminal.parameters import OBJECT, read_object
from atlas.cli.workflow.arguments import RunId, find_run

if TYPE_CHECKING:
    from atlas.client import AtlasClient, Signaled


def signal(
    run_id: RunId,
    name: Annotated[str, typer.Argument(help="The name the run waits for.")],
    context: Annotated[str, typer.Option(metavar=OBJECT, help="What it says, a JSON object.")] = "{}",
    json: Json = False,
) -> None:
    """Send an event to one run alone."""

    async def work(atlas: "AtlasClient") -> "Signaled":
        id, facts = await find_run(atlas, run_id), read_object("--context", context)
        return await atlas.signal_run(id, name, facts)

    published = on_atlas(work)
    effect = "woke the run" if published.woken else "is stored until the run waits for it"
    say({"id": published.id, "woken": published.woken}, f"Signal {name!r} {effect}.", json=json)


def cancel(run_id: RunId, json: Json = False) -> None:
    """Stop a run and its children."""

    async def work(atlas: "AtlasClient") -> tuple[UUID, str]:
        id = await find_run(atlas, run_id)
        return id, (await atlas.cancel_run(id)).verdict

    id, verdict = on_atlas(work)
    effects = {
        "canceled": "is canceled",
        "requested": "was asked to stop",
        "rejected": "was withdrawn before starting",
    }
    say({"id": id, "verdict": verdict}, f"Run {id} {effects[verdict]}.", json=json)


def retry(run_id: RunId, json: Json = False) -> None:
    """Continue a failed run from the step that failed."""

    async def work(atlas: "AtlasClient") -> UUID:
        return (await atlas.retry_run(await find_run(atlas, run_id))).id

    id = on_atlas(work)
    say({"id": id, "verdict": "retried"}, f"Run {id} continues.", json=json)


def fork(
    run_id: RunId,
    step: Annotated[
        str, typer.Option("--from", metavar="STEP", help="The first step to run again, as `show` names it.")
    ],
    json: Json = False,
) -> None:
    """Request a new run that reuses the steps that this one recorded before a step."""

    async def work(atlas: "AtlasClient") -> tuple[UUID, UUID]:
        id = await find_run(atlas, run_id)
        return id, (await atlas.fork_run(id, step)).id

    id, forked = on_atlas(work)
    say({"id": forked, "forked_from": id, "step": step}, f"Run {forked} requested.", json=json)
