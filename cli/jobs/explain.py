"""`atlas explain`: why a job, a run, a trigger or a worker does nothing, whichever an id belongs to."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.ids import is_beginning, only_one
from atlas.cli.terminal.output import Json, say
from atlas.engine.id_prefixes import IdKind
from atlas.errors import NotFound, Refused
from atlas.ids import as_id
from atlas.models.explain import Explanation

if TYPE_CHECKING:
    from atlas.client import AtlasClient

KIND = "job, run, trigger or worker"
KINDS: tuple[IdKind, ...] = ("run", "trigger", "job")


def explain(
    id: Annotated[str, typer.Argument(help="The id of a job, a run or a trigger, or its beginning; or of a worker.")],
    json: Json = False,
) -> None:
    """Explain why a job, a run, a trigger or a worker does nothing, and the way out."""
    explanation = on_atlas(lambda atlas: _explain(atlas, id))
    say(explanation, explanation.text, json=json)


async def _explain(atlas: "AtlasClient", text: str) -> Explanation:
    if not _is_id(text):
        return await atlas.explain_worker(text)
    id = as_id(text) or await _beginning(atlas, text)
    for explained in (atlas.explain_run, atlas.explain_trigger, atlas.explain_job):
        try:
            return await explained(id)
        except (NotFound, Refused):
            # Not one of these, or not for this token.
            continue
    raise NotFound(KIND, text)


async def _beginning(atlas: "AtlasClient", text: str) -> UUID:
    """The only one of them whose id begins so. A run is a job too, of the same id."""
    ids: set[UUID] = set()
    for kind in KINDS:
        # Not every role may list triggers.
        with suppress(Refused):
            ids |= {*(await atlas.find_ids(kind, text)).ids}
    return only_one(KIND, text, sorted(ids))


def _is_id(text: str) -> bool:
    """Whether it is the id of a row, or the beginning of one. The id of a worker is `host:pid:uuid`."""
    return as_id(text) is not None or is_beginning(text)
