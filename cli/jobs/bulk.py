"""Changes many jobs: exactly those that a preview has counted."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import say

if TYPE_CHECKING:
    from atlas.client import AtlasClient
    from atlas.models.jobs import BulkAction, BulkActionPreview, BulkVerb

Preview = Annotated[bool, typer.Option("--preview", help="Only count the jobs that it would change.")]
Digest = Annotated[
    str | None, typer.Option(metavar="DIGEST", help="Change the jobs that --preview counted: the digest it printed.")
]


def change_jobs(
    verb: "BulkVerb",
    filter_of: "Callable[[AtlasClient], Awaitable[dict[str, Any]]]",
    *,
    preview: bool,
    digest: str | None,
    json: bool,
    tenant: str | None = None,
    limit: int | None = None,
) -> None:
    """Count the jobs that pass the filter and change those, or those of an earlier preview, and no others."""
    if preview and digest is not None:
        raise typer.BadParameter("count with --preview, or change what it counted with --digest", param_hint="--digest")

    async def work(atlas: "AtlasClient") -> "tuple[BulkActionPreview | None, BulkAction | None]":
        if digest is not None:
            return None, await atlas.begin_bulk_action(verb, digest=digest)
        counted = await atlas.preview_bulk_action(verb, await filter_of(atlas), limit=limit)
        begins = not preview and counted.count > 0
        return counted, await atlas.begin_bulk_action(verb, digest=counted.digest) if begins else None

    counted, begun = on_atlas(work, tenant=tenant)
    document: dict[str, Any] = {}
    if counted is not None:
        document = {"jobs": counted.count, "left_out": counted.left_out, "digest": counted.digest}
    if begun is not None:
        document |= {"jobs": begun.total, "digest": begun.digest, "bulk_action_id": begun.id}
        document |= {"changed": begun.changed, "verdicts": begun.verdicts, "arrived": begun.arrived}
    say(document, " ".join(_sentences(verb, document)), json=json)


def _sentences(verb: "BulkVerb", document: dict[str, Any]) -> list[str]:
    count, changed = document["jobs"], document.get("changed")
    sentences = [f"Jobs to {verb}: {count}."]
    if changed is not None:
        sentences = [f"Jobs to {verb}: {count}, changed: {changed}."]
    if left_out := document.get("left_out"):
        reasons = ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in sorted(left_out.items()))
        sentences.append(f"Left as they are: {reasons}.")
    if changed is None:
        return [*sentences, f"Change them with --digest {document['digest']}."] if count else sentences
    if document["arrived"]:
        sentences.append(f"Arrived since and left as they are: {document['arrived']}.")
    if sum(document["verdicts"].values()) < count:
        sentences.append(f"A scheduler changes the rest: bulk action {document['bulk_action_id']}.")
    return sentences
