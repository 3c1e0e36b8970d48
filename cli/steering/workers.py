"""`atlas worker list` and `drain`: the workers that run."""

from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.connection.client_lists import all_of
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, format_age, say, table

if TYPE_CHECKING:
    from atlas.client import AtlasClient
    from atlas.models.system import WorkerStatus

NONE_RUN = "No worker is running. Start one with `atlas worker --all`, or everything with `atlas up`."


def show_list(json: Json = False) -> None:
    """List the workers that run, the newest first.

    With their job types, and how many jobs each runs.
    """

    async def work(atlas: "AtlasClient") -> "list[WorkerStatus]":
        return await all_of(atlas.list_workers(alive_only=True))

    workers = on_atlas(work)
    rows = [
        (
            *(worker.worker_id, worker.hostname, worker.version, worker.running_count),
            *(format_age(worker.started_at), format_age(worker.last_seen_at), ", ".join(worker.job_types)),
        )
        for worker in workers
    ]
    columns = ("WORKER", "HOST", "VERSION", "RUNNING", "AGE", "LAST SEEN", "JOB TYPES")
    say({"workers": workers}, table(columns, rows) if rows else NONE_RUN, json=json)


def drain(
    worker_id: Annotated[str, typer.Argument(metavar="WORKER", help="The worker, as `atlas worker list` shows it.")],
    json: Json = False,
) -> None:
    """Let a worker finish the jobs that it runs, and stop. It claims no more."""
    worker = on_atlas(lambda atlas: atlas.drain_worker(worker_id))
    text = f"Worker {worker.worker_id} claims no more jobs, and stops when the {worker.running_count} that it runs end."
    say(dict(worker), text, json=json)
