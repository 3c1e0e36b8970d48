"""`atlas pause`, `atlas resume`, `atlas pauses`: hold back a tenant, type, definition, workflow, host or trigger."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from atlas.cli.connection.client_lists import all_of
from atlas.cli.connection.connect import on_atlas
from atlas.cli.steering.pause_table import pauses_text
from atlas.cli.terminal.durations import parse_duration
from atlas.cli.terminal.output import Json, say
from atlas.engine.jobs.switches.pauses import named_pause

if TYPE_CHECKING:
    from atlas.client import AtlasClient
    from atlas.models.system import Pause

Kind = Annotated[
    Literal["tenant", "type", "definition", "workflow", "host", "trigger"],
    typer.Argument(help="The kind of the target."),
]
Target = Annotated[str, typer.Argument(help="Its key, slug, name, label or id.")]
Tenant = Annotated[
    str | None, typer.Option(help="Its tenant, by slug or id; without it, a workflow is paused for all tenants.")
]
Reason = Annotated[str | None, typer.Option(help="Why, for everyone who asks what holds a job.")]
For = Annotated[
    timedelta | None,
    typer.Option("--for", parser=parse_duration, metavar="DURATION", help="Resume automatically after this time."),
]


def pause(
    kind: Kind, target: Target, reason: Reason = None, for_: For = None, tenant: Tenant = None, json: Json = False
) -> None:
    """Pause a tenant, type, definition, workflow, host or trigger.

    Running jobs may finish, and jobs can still be enqueued.
    Returns when every worker has confirmed, within two seconds. A worker that has not confirmed by then
    can no longer start a paused job.
    """
    seconds = None if for_ is None else for_.total_seconds()
    paused = on_atlas(lambda atlas: atlas.pause(kind, target, reason=reason, for_seconds=seconds), tenant=tenant)
    say(paused, f"{paused.text}{_confirmations(paused)}", json=json)


def resume(kind: Kind, target: Target, tenant: Tenant = None, json: Json = False) -> None:
    """End a pause: paused jobs start again, in their order."""

    async def work(atlas: "AtlasClient") -> "Pause":
        # A pause for all tenants concerns each, and is not ended as one of them.
        listed = await all_of(atlas.list_pauses())
        if tenant is not None:
            owner = (await atlas.get_tenant(tenant)).id
            listed = [pause for pause in listed if pause.tenant_id in (None, owner)]
        named = named_pause(listed, kind, target, is_for_one=tenant is not None)
        await atlas.resume(named.id)
        return named

    ended = on_atlas(work)
    say(ended, f"Resumed {kind} {ended.name or ended.target}.", json=json)


def pauses(tenant: Tenant = None, json: Json = False) -> None:
    """Show what is paused, by whom, since when, until when and why."""
    listed = on_atlas(lambda atlas: all_of(atlas.list_pauses()), tenant=tenant)
    say({"pauses": listed}, pauses_text(listed) if listed else "Nothing is paused.", json=json)


def _confirmations(pause: "Pause") -> str:
    if pause.workers is None or pause.confirmed is None or pause.workers == 0:
        return ""
    text = f" {pause.confirmed} of {pause.workers} workers confirmed the pause"
    return f"{text}." if pause.confirmed == pause.workers else f"{text}; the right of the others to start has lapsed."
