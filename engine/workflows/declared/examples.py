"""The example workflows that come with Atlas."""

from typing import Any

import orjson

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.engine.workflows.declared.store import Saved, save_workflow
from atlas.source import SOURCE

FOLDER = SOURCE / "examples" / "workflows"


def example_workflows() -> list[dict[str, Any]]:
    """The documents, by file name; none where Atlas was installed without them."""
    return [orjson.loads(path.read_bytes()) for path in sorted(FOLDER.glob("*.json"))]


async def load_examples(conn: Connection, *, actor: Actor) -> list[Saved]:
    """Save the examples for every tenant; those that are saved already stay as they are."""
    return [await save_workflow(conn, document, actor=actor) for document in example_workflows()]
