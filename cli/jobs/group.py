"""`atlas group`: shows groups of jobs, cancels and retries all of one."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atlas.cli.connection.client_lists import find_row, read_page, resolve_id, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.jobs.bulk import Digest, Preview, change_jobs
from atlas.cli.terminal.output import Json, format_age, say, say_page, table
from atlas.cli.terminal.parameters import Limit, TenantFilter
from atlas.models.jobs import JobGroup

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(help="Groups of jobs: list, show, cancel and retry them.", no_args_is_help=True, add_completion=False)

NO_GROUPS = "There are no groups. `enqueue_group` of the Python client and `POST /groups` make one."
GroupId = Annotated[str, typer.Argument(metavar="ID", help="The group's id, or its beginning.")]


@app.command("list")
def show_list(
    tenant: TenantFilter = None,
    limit: Limit = 50,
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
            *(_counts(group), group.then_type, format_age(group.created_at)),
        )
        for group in page.items
    ]
    columns = ("STATUS", "TENANT", "NAME", "ID", "JOBS", "FOLLOWED BY", "AGE")
    text = table(columns, rows) if rows else NO_GROUPS
    documents = [names.document(group) for group in page.items]
    say_page("groups", documents, text, next_before=page.next_cursor, json=json)


@app.command("show")
def show(group_id: GroupId, json: Json = False) -> None:
    """Show how far a group is: its jobs by status, and the job that follows."""
    group = on_atlas(lambda atlas: find_row(atlas, "group", group_id, atlas.get_group))
    say(dict(group), "\n".join(_lines(group)), json=json)


@app.command("cancel")
def cancel(group_id: GroupId, preview: Preview = False, digest: Digest = None, json: Json = False) -> None:
    """Cancel all jobs of a group that have not finished. The job that follows the group is enqueued then."""
    change_jobs("cancel", _filter_of(group_id), preview=preview, digest=digest, json=json)


@app.command("retry")
def retry(group_id: GroupId, preview: Preview = False, digest: Digest = None, json: Json = False) -> None:
    """Retry the jobs of a group that failed or were canceled. The job that followed it is not enqueued again."""
    change_jobs("retry", _filter_of(group_id), preview=preview, digest=digest, json=json)


def _filter_of(group_id: str) -> "Callable[[AtlasClient], Awaitable[dict[str, Any]]]":
    async def read(atlas: "AtlasClient") -> dict[str, Any]:
        return {"group_id": str(await resolve_id(atlas, "group", group_id))}

    return read


def _counts(group: JobGroup) -> str:
    return ", ".join(f"{count} {status}" for status, count in sorted(group.counts.items())) or "none left"


def _lines(group: JobGroup) -> list[str]:
    state = "is open" if group.ended_at is None else f"ended {format_age(group.ended_at)} ago"
    named = f" ({group.name})" if group.name else ""
    lines = [f"Group {group.id}{named} {state}; jobs: {group.total}, {_counts(group)}."]
    if group.then_job_id is not None:
        lines.append(f"Job {group.then_job_id} of the type {group.then_type} followed it.")
    elif group.then_type is not None:
        lines.append(f"A job of the type {group.then_type} follows when all have ended.")
    return lines
