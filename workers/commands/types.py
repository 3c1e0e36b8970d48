"""Makes job types of the active command definitions."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import orjson

from atlas.db.pool import Queryable
from atlas.engine.commands.active_definitions import load_definitions
from atlas.engine.commands.definitions import Definition
from atlas.engine.jobs.handlers.types import JobType
from atlas.engine.schemas import require_fit
from atlas.workers.commands.handler import run_command


@dataclass(frozen=True, slots=True)
class CommandType(JobType):
    """A job type whose handler runs a program. Its input is described by a JSON Schema, not by a model."""

    def parse(self, text: str) -> Any:
        """The input unchecked: the handler checks it against the current definition."""
        return orjson.loads(text)

    def check(self, text: str) -> None:
        """Refuse an input that does not match the schema, when a handler of this process enqueues a command."""
        require_fit(self.input_schema, orjson.loads(text), what=f"The input of {self.key}")


async def load_command_types(
    conn: Queryable, *, only: Collection[str] | None = None, without: Collection[str] = ()
) -> list[JobType]:
    """The job types of the active definitions: all, or those in `only`, but for those in `without`."""
    active = [
        definition
        for definition in await load_definitions(conn)
        if definition.spec.is_active and definition.spec.key not in without
    ]
    return [command_type(definition) for definition in active if only is None or definition.spec.key in only]


def command_type(definition: Definition) -> JobType:
    """The job type of one definition."""
    spec = definition.spec
    return CommandType(
        key=spec.key,
        handler=run_command,
        adapter=None,
        is_async=True,
        takes_context=True,
        timeout=float(spec.timeout_seconds),
        max_retries=spec.max_retries,
        policy=spec.policy,
        concurrency=spec.concurrency,
        concurrency_key=spec.concurrency_key,
        rate=spec.rate,
        burst=spec.burst,
        description=spec.description,
        success_action="JOB_SUCCEEDED",
        input_schema=spec.arg_schema,
        # The schema may have marked secrets when a job was enqueued; its input shows whether it has any.
        has_secrets=True,
        is_command=True,
        audit_content=True,
    )
