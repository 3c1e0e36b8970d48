"""The example command definitions of a new installation, with small programs in place of real ones."""

import os
from typing import Any

from atlas.actors import Actor
from atlas.cli.jobs.definition import read_definition
from atlas.db.pool import Connection
from atlas.engine.commands.definitions import add_definition, edit_definition, list_definitions
from atlas.source import SOURCE

FOLDER = SOURCE / "examples" / "definitions"


async def load_examples(conn: Connection, *, actor: Actor) -> list[str]:
    """Add the example definitions that are missing, and return the keys of all.

    What an operator changed stays, except for the path of a program that is gone: programs move with the checkout.
    """
    specs = {definition.spec.key: definition.spec for definition in await list_definitions(conn)}
    examples = read_examples()
    for key, described in examples.items():
        if key not in specs:
            await add_definition(conn, described, actor=actor)
        elif not all(map(os.path.exists, specs[key].programs.values())):
            await edit_definition(conn, key, {"programs": described["programs"]}, actor=actor)
    return list(examples)


def read_examples() -> dict[str, dict[str, Any]]:
    """The examples by key."""
    definitions = (read_definition(file) for file in sorted(FOLDER.glob("*.json")))
    return {described["key"]: described for described in definitions}
