"""Active definitions as job types of a worker."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from atlas.db.pool import Queryable
from atlas.engine.commands.definitions import Definition, list_definitions
from atlas.engine.jobs.types import JobType
from atlas.engine.schemas import require_fit
from atlas.workers.commands.handler import run_command


@dataclass(frozen=True, slots=True)
class CommandType(JobType):
    """A job type whose handler runs a program. Its input is described by a JSON Schema, not by a model."""

    def parse(self, text: str) -> Any:
        """The payload as it is: the handler checks it against the definition of the moment."""
        return orjson.loads(text)

    def check(self, input: Mapping[str, Any]) -> None:
        """Refuse a payload that does not fit, for handlers of this process that enqueue commands."""
        require_fit(self.input_schema, input, what=f"The input of {self.key}")


async def load_command_types(conn: Queryable, *, only: Collection[str] | None = None) -> list[JobType]:
    """The active definitions, or those named, as what a worker can serve."""
    found = await list_definitions(conn, active_only=True)
    return [command_type(one) for one in found if only is None or one.spec.key in only]


def command_type(definition: Definition) -> JobType:
    """One definition as a job type."""
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
        description=spec.description,
        success_action="JOB_SUCCEEDED",
        input_schema=spec.arg_schema,
        # A job may hold secrets that the schema marked when it was made; whether it does is seen in its input.
        has_secrets=True,
        is_command=True,
    )
