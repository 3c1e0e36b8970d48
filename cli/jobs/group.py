"""`atlas group`: shows groups of jobs, cancels and retries all of one."""

from typing import TYPE_CHECKING, Annotated

import typer

from atlas.bounds import LARGEST_PAGE
from atlas.cli.connection.connect import on_atlas
from atlas.cli.connection.over_http_rows import find_id_over_http, find_row, read_page, with_names
from atlas.cli.terminal.output import Json, say, say_page, shown_age, table
from atlas.cli.terminal.parameters import TenantFilter
from atlas.engine.jobs.bulk_previews import BulkVerb
from atlas.models.jobs import JobGroup

if TYPE_CHECKING:
    from atlas.client import AtlasClient
    from atlas.models.jobs import BulkActionPreview, BulkActionShown

app = typer.Typer(help="Groups of jobs: list, show, cancel and retry them.", no_args_is_help=True, add_completion=False)

NO_GROUPS = "There are no groups. `enqueue_group` of the Python client and `POST /groups` make one."
Preview = Annotated[bool, typer.Option("--preview", help="Only count the jobs that it would change.")]
GroupId = Annotated[str, typer.Argument(metavar="ID", help="The group's id, or its beginning.")]


@app.command("list")
def show_list(
    tenant: TenantFilter = None,
    limit: Annotated[int, typer.Option(min=1, max=LARGEST_PAGE)] = 50,
    before: Annotated[
        str | None, typer.Option(metavar="ID", help="Show the groups that are older than this one.")
    ] = None,
    json: Json = False,
) -> None:
    """List groups of jobs, newest first."""
    page, names = with_names(
        lambda atlas: read_page(atlas, "group", atlas.list_groups(), before=before, limit=limit), tenant=tenant
    )
    rows = [
        (
            *("open" if group.ended_at is None else "finished", names.slug(group.tenant_id), group.name, group.id),
            *(_counts(group), group.then_type, shown_age(group.created_at)),
        )
        for group in page.items
    ]
    columns = ("STATUS", "TENANT", "NAME", "ID", "JOBS", "FOLLOWED BY", "AGE")
    shown = table(columns, rows) if rows else NO_GROUPS
    documents = [names.document(group) for group in page.items]
    say_page("groups", documents, shown, next_before=page.next_cursor, json=json)


@app.command("show")
def show(group_id: GroupId, json: Json = False) -> None:
    """Show how far a group is: its jobs by status, and the job that follows."""
    group = on_atlas(lambda atlas: find_row(atlas, "group", group_id, atlas.get_group))
    say(dict(group), "\n".join(_lines(group)), json=json)


@app.command("cancel")
def cancel(group_id: GroupId, preview: Preview = False, json: Json = False) -> None:
    """Cancel all jobs of a group that have not ended. The job that follows the group is enqueued then."""
    _begin("cancel", group_id, preview=preview, json=json)


@app.command("retry")
def retry(group_id: GroupId, preview: Preview = False, json: Json = False) -> None:
    """Retry the jobs of a group that failed or were canceled. The job that followed it is not enqueued again."""
    _begin("retry", group_id, preview=preview, json=json)


def _begin(verb: BulkVerb, group_id: str, *, preview: bool, json: bool) -> None:
    """Change the jobs that a preview has counted, and no others."""

    async def work(atlas: "AtlasClient") -> "tuple[BulkActionPreview, BulkActionShown | None]":
        id = await find_id_over_http(atlas, "group", group_id)
        counted = await atlas.preview_bulk_action(verb, {"group_id": str(id)})
        return counted, None if preview else await atlas.begin_bulk_action(verb, digest=counted.digest)

    counted, begun = on_atlas(work)
    document = {"jobs": counted.count, "left_out": counted.left_out, "digest": counted.digest}
    if begun is None:
        say(document, f"Jobs to {verb}: {counted.count}.", json=json)
        return
    message = f"Jobs to {verb}: {counted.count}, changed: {begun.changed}."
    if begun.changed < counted.count:
        message += f" A scheduler goes on with the others: bulk action {begun.id}."
    say({**document, "bulk_action_id": begun.id, "changed": begun.changed}, message, json=json)


def _counts(group: JobGroup) -> str:
    return ", ".join(f"{count} {status}" for status, count in sorted(group.counts.items())) or "none left"


def _lines(group: JobGroup) -> list[str]:
    state = "is open" if group.ended_at is None else f"ended {shown_age(group.ended_at)} ago"
    named = f" ({group.name})" if group.name else ""
    lines = [f"Group {group.id}{named} {state}; jobs: {group.total}, {_counts(group)}."]
    if group.then_job_id is not None:
        lines.append(f"Job {group.then_job_id} of the type {group.then_type} followed it.")
    elif group.then_type is not None:
        lines.append(f"A job of the type {group.then_type} follows when all have ended.")
    return lines
