"""`atlas trigger add`, `edit`, `remove` and `fire`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from atlas.cli.access.tenant_names import TenantNames
from atlas.cli.connection.client_lists import remove_row, resolve_id, tenant_names, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.durations import parse_duration_or_zero
from atlas.cli.terminal.output import Json, say
from atlas.cli.terminal.parameters import OBJECT, read_object
from atlas.cli.trigger.show import CronExpr, TriggerId, Zone
from atlas.errors import FieldError, InvalidInput

if TYPE_CHECKING:
    from atlas.client import AtlasClient, Trigger

Label = Annotated[str | None, typer.Option(help="A name to show.")]
EventName = Annotated[str | None, typer.Option("--event", help="An event's name, or a prefix of names: invoice.*")]
JobType = Annotated[str | None, typer.Option("--job-type", help="The job type to enqueue.")]
DefinitionKey = Annotated[str | None, typer.Option("--definition", help="The command definition to run.")]
Workflow = Annotated[str | None, typer.Option("--workflow", help="The workflow to request.")]
Input = Annotated[str | None, typer.Option("--input", metavar=OBJECT, help="The input: a template.")]
Misfire = Annotated[str | None, typer.Option(help="Which missed times fire: skip, latest or all.")]
Window = Annotated[
    str | None,
    typer.Option("--dedupe-window", metavar="DURATION", help="Equal inputs within it start once; 0 turns it off."),
]


# The fields of a trigger, and the options that set them.
OPTIONS = {
    "label": "--label",
    "cron_expr": "--cron",
    "timezone": "--timezone",
    "event_name": "--event",
    "job_type": "--job-type",
    "definition_key": "--definition",
    "workflow": "--workflow",
    "payload_template": "--input",
    "dedupe_window_seconds": "--dedupe-window",
    "misfire": "--misfire",
}
_FIELD = re.compile(rf"\b({'|'.join(OPTIONS)})\b")


def add(
    tenant: Annotated[str | None, typer.Option(help="The trigger's tenant, by slug or id. [required]")] = None,
    label: Label = None,
    cron: CronExpr = None,
    timezone: Zone = None,
    event: EventName = None,
    job_type: JobType = None,
    definition: DefinitionKey = None,
    workflow: Workflow = None,
    input_: Input = None,
    misfire: Misfire = None,
    dedupe_window: Window = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Add it disabled: it does not fire.")] = False,
    json: Json = False,
) -> None:
    """Add a trigger: --tenant, one of --cron and --event, and one of --job-type, --definition and --workflow."""
    _require(tenant, cron or event, job_type or definition or workflow)
    target = {"job_type": job_type, "definition_key": definition, "workflow": workflow}
    described = _described(label, cron, timezone, event, input_, misfire, dedupe_window) | _options_of(target)
    described.setdefault("trigger_type", "schedule" if event is None else "event")
    described.setdefault("label", cron or event or "")
    described["is_enabled"] = not disabled
    with _errors_by_option():
        added, names = with_names(lambda atlas: atlas.create_trigger(**described), tenant=tenant)
    say(names.document(added), f"Trigger {added.id} added.{_first(added)}", json=json)


def edit(
    trigger_id: TriggerId,
    label: Label = None,
    cron: CronExpr = None,
    timezone: Zone = None,
    event: EventName = None,
    job_type: JobType = None,
    definition: DefinitionKey = None,
    workflow: Workflow = None,
    input_: Input = None,
    misfire: Misfire = None,
    dedupe_window: Window = None,
    enable: Annotated[bool | None, typer.Option("--enable/--disable", help="Whether it fires.")] = None,
    json: Json = False,
) -> None:
    """Change a trigger. A new target replaces the old one."""
    changes = _described(label, cron, timezone, event, input_, misfire, dedupe_window)
    target = _options_of({"job_type": job_type, "definition_key": definition, "workflow": workflow})
    if target:
        changes |= {"job_type": None, "definition_key": None, "workflow": None, **target}
    # Fields of the other type are cleared, unless they were given as well: then the change is refused.
    if event is not None:
        changes = {"cron_expr": None, "timezone": None, **changes}
    elif cron is not None:
        changes = {"event_name": None, **changes}
    if enable is not None:
        changes["is_enabled"] = enable
    if not changes:
        raise typer.BadParameter("give at least one option to change")

    async def work(atlas: "AtlasClient") -> "tuple[Trigger, TenantNames]":
        id = await resolve_id(atlas, "trigger", trigger_id)
        return await atlas.edit_trigger(id, **changes), await tenant_names(atlas)

    with _errors_by_option():
        edited, names = on_atlas(work)
    say(names.document(edited), f"Trigger {edited.id} updated.{_first(edited)}", json=json)


def remove(trigger_id: TriggerId, json: Json = False) -> None:
    """Remove a trigger. The jobs and runs it started stay."""
    removed, names = with_names(
        lambda atlas: remove_row(atlas, "trigger", trigger_id, atlas.get_trigger, atlas.remove_trigger)
    )
    say(names.document(removed), f"Trigger {removed.id} ({removed.label}) removed.", json=json)


def fire(
    trigger_id: TriggerId,
    context: Annotated[str, typer.Option(metavar=OBJECT, help="The context of the simulated event.")] = "{}",
    json: Json = False,
) -> None:
    """Fire a trigger once, now. Its schedule stays as it is."""

    async def work(atlas: "AtlasClient") -> tuple[UUID, UUID]:
        id = await resolve_id(atlas, "trigger", trigger_id)
        return id, (await atlas.fire_trigger(id, context=read_object("--context", context))).job_id

    id, started = on_atlas(work)
    say({"id": id, "job_id": started}, f"Trigger {id} fired and started {started}.", json=json)


def _require(tenant: str | None, when: str | None, target: str | None) -> None:
    """Name every option that a trigger needs and that was not given."""
    needed = (
        (tenant, "--tenant SLUG"),
        (when, "--cron EXPRESSION or --event NAME"),
        (target, "one of --job-type TYPE, --definition KEY and --workflow KEY"),
    )
    missing = [options for value, options in needed if not value]
    if missing:
        raise typer.BadParameter(f"also give {'; '.join(missing)}")


@contextmanager
def _errors_by_option() -> Iterator[None]:
    """Name the options in the errors of the block, instead of the fields of a trigger."""
    try:
        yield
    except InvalidInput as error:
        errors = [
            FieldError(_by_option(wrong.field.removeprefix("body.")), _by_option(wrong.reason))
            for wrong in error.errors
        ]
        raise InvalidInput("The trigger", errors) from None


def _by_option(text: str) -> str:
    return _FIELD.sub(lambda field: OPTIONS[field[1]], text)


def _described(
    label: str | None,
    cron: str | None,
    timezone: str | None,
    event: str | None,
    input_: str | None,
    misfire: str | None,
    dedupe_window: str | None,
) -> dict[str, Any]:
    """The fields that were given as options."""
    described = _options_of(
        {"label": label, "cron_expr": cron, "timezone": timezone, "event_name": event, "misfire": misfire}
    )
    if input_ is not None:
        described["payload_template"] = read_object("--input", input_)
    if dedupe_window is not None:
        described["dedupe_window_seconds"] = int(parse_duration_or_zero(dedupe_window).total_seconds())
    if cron is not None or event is not None:
        described["trigger_type"] = "schedule" if event is None else "event"
    return described


def _options_of(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _first(trigger: "Trigger") -> str:
    kind, name = trigger.target
    missing = "" if trigger.target_exists else f" There is no {kind.replace('_', ' ')} {name} yet."
    if trigger.next_fire_at is None or not trigger.is_enabled:
        return missing
    return f"{missing} It is next due at {trigger.next_fire_at:%Y-%m-%d %H:%M} UTC."
