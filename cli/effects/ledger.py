"""`atlas effects list`, `show`, `settle` and `reports`: calls of providers, and the doubts that a person settles."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from atlas.cli.connection.client_lists import all_of, find_row, read_page, resolve_id, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, format_age, say, say_page, table
from atlas.cli.terminal.parameters import Limit
from atlas.errors import FieldError, InvalidInput

if TYPE_CHECKING:
    from atlas.client import AtlasClient, Effect, Page

EffectId = Annotated[str, typer.Argument(metavar="ID", help="The effect's id, or its beginning.")]


def list_effects(
    state: Annotated[
        Literal["intended", "done", "unknown", "refused"] | None, typer.Option(help="Only those in this state.")
    ] = None,
    provider: Annotated[str | None, typer.Option(help="Only this provider's: `stripe` of `stripe.charge`.")] = None,
    job: Annotated[str | None, typer.Option(metavar="ID", help="Only those of this job or run.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's, by slug or id.")] = None,
    limit: Limit = 50,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Show those that are older than this one.")] = None,
    json: Json = False,
) -> None:
    """List effects, newest first. Those that are unknown wait for a person."""

    async def work(atlas: "AtlasClient") -> "Page[Effect]":
        job_id = None if job is None else await resolve_id(atlas, "job", job, option="--job")
        listing = atlas.list_effects(state=state, provider=provider, job_id=job_id)
        return await read_page(atlas, "effect", listing, before=before, limit=limit)

    page, names = with_names(work, tenant=tenant)
    rows = [
        (
            *(effect.state, names.slug(effect.tenant_id), effect.name, effect.id, effect.job_id),
            *(effect.reference, format_age(effect.intended_at)),
        )
        for effect in page.items
    ]
    columns = ("STATE", "TENANT", "NAME", "ID", "JOB", "REFERENCE", "AGE")
    text = table(columns, rows) if rows else "There are no such effects."
    documents = [names.document(effect) for effect in page.items]
    say_page("effects", documents, text, next_before=page.next_cursor, json=json)


def show_effect(effect_id: EffectId, json: Json = False) -> None:
    """Show an effect, and the question to settle if its outcome is unknown."""
    effect = on_atlas(lambda atlas: find_row(atlas, "effect", effect_id, atlas.get_effect))
    say(dict(effect), "\n".join(_lines(effect)), json=json)


def settle_effect(
    effect_id: EffectId,
    done: Annotated[bool, typer.Option("--done", help="It was made.")] = False,
    not_done: Annotated[bool, typer.Option("--not-done", help="It was not made: the job calls again.")] = False,
    reference: Annotated[str | None, typer.Option(help="What the provider calls it.")] = None,
    token: Annotated[
        str | None, typer.Option(help="The token of the person who settles, over HTTP; better in ATLAS_TOKEN.")
    ] = None,
    json: Json = False,
) -> None:
    """Say whether an unknown effect was made. Its job continues."""
    if done == not_done:
        raise InvalidInput("The command", [FieldError("outcome", "is missing")], remedy="Name --done or --not-done.")
    outcome: Literal["done", "not_done"] = "done" if done else "not_done"

    async def work(atlas: "AtlasClient") -> "tuple[Effect, bool]":
        effect = await atlas.get_effect(await resolve_id(atlas, "effect", effect_id))
        settled = await atlas.settle_effect(effect.id, outcome=outcome, reference=reference)
        return effect, settled.woken

    effect, woken = on_atlas(work, token=token, by_token=True)
    became = "was made" if done else "was not made"
    continues = f" Job {effect.job_id} continues." if woken else ""
    document = {"id": effect.id, "outcome": outcome, "reference": reference, "woken": woken}
    say(document, f"Recorded: {effect.name} {became}.{continues}", json=json)


def _lines(effect: "Effect") -> list[str]:
    lines = [
        f"Effect {effect.id}: {effect.name} is {effect.state}.",
        f"  job        {effect.job_id} ({effect.job_type}), attempt {effect.attempt_no}",
        f"  key        {effect.key}",
        f"  called     {format_age(effect.intended_at)} ago",
    ]
    lines += [f"  reference  {effect.reference}"] if effect.reference else []
    lines += [f"  also made  {', '.join(effect.other_references)}"] if effect.other_references else []
    lines += [f"  settled    by {effect.settled_by}"] if effect.settled_by else []
    lines += [f"  {name}: {value}" for name, value in effect.detail.items()]
    if effect.question is not None:
        lines += [effect.question, f"  yes: atlas effects settle {effect.id} --done --reference REFERENCE"]
        lines += [f"  no:  atlas effects settle {effect.id} --not-done"]
    return lines


def list_reports(json: Json = False) -> None:
    """Show the last reconciliation with each provider."""
    reports = on_atlas(lambda atlas: all_of(atlas.list_effect_reports()))
    columns = ("PROVIDER", "AGE", "EFFECTS", "ENTRIES", "DIFFERENCES", "SETTLED", "IN DOUBT")
    rows = [
        (
            *(report.provider, format_age(report.finished_at), report.effects, report.entries),
            *(report.differences, report.settled, report.in_doubt),
        )
        for report in reports
    ]
    text = table(columns, rows) if rows else "No provider was reconciled yet: `atlas effects reconcile`."
    say({"reports": [dict(report) for report in reports]}, text, json=json)
