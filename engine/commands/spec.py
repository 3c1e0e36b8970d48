"""A command definition as an operator writes it, checked as a whole before it is stored."""

from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from atlas.db.pg_json import holds_nul
from atlas.engine.commands.argv import check_argv
from atlas.engine.commands.environment import check_env
from atlas.engine.jobs.backoff import ATLAS, POLICIES, RetryPolicy, policy_of
from atlas.engine.jobs.handlers.types import ALIASES, field_errors
from atlas.engine.jobs.limits import check_key
from atlas.engine.jobs.new_jobs.new_job import SERVER_TYPES
from atlas.engine.schemas import check_schema
from atlas.engine.secrets.fields import MARK
from atlas.errors import FieldError, InvalidInput

# Job types of Atlas itself.
RESERVED = {"EMAIL_SEND", "ENGINE_RUN", *ALIASES, *SERVER_TYPES}

Key = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class Limits(BaseModel):
    """What the program and each process it starts may use; `processes` counts them all together."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    cpu_seconds: int | None = Field(default=None, ge=1, le=7 * 86_400)
    memory_mb: int = Field(default=2048, ge=32, le=1_048_576)
    files: int = Field(default=256, ge=16, le=65_536)
    processes: int = Field(default=64, ge=1, le=4096)
    file_size_mb: int = Field(default=1024, ge=1, le=1_048_576)


class DefinitionSpec(BaseModel):
    """A definition of a command.

    `programs` is the allow-list of names that argv may begin with, each with the path of its program. `env` maps each
    name to a text, or to null for the worker's own value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    key: Key
    description: str = Field(default="", max_length=2000)
    argv: list[Any]
    programs: dict[str, str] = {}
    arg_schema: dict[str, Any] = {}
    timeout_seconds: int = Field(default=3600, ge=1, le=7 * 86_400)
    max_retries: int = Field(default=2, ge=0, le=1000)
    retry_policy: str | dict[str, Any] = "atlas"
    concurrency: int | None = Field(default=None, ge=1, le=100_000)
    concurrency_key: str | None = None
    rate: str | None = None
    burst: int | None = None
    limits: Limits = Limits()
    env: dict[str, str | None] = {}
    is_active: bool = True

    @property
    def policy(self) -> RetryPolicy:
        """How a failed attempt is tried again."""
        return policy_of(self.retry_policy)


def read_spec(described: Mapping[str, Any], *, program: str | None = None) -> DefinitionSpec:
    """Return the definition that a JSON object describes; raises InvalidInput with everything that is wrong.

    One without `argv` runs the installation's `program` with its key and the tenant's id.
    """
    document = dict(described)
    if document.get("argv") is None and isinstance(document.get("key"), str):
        document["argv"] = _default_argv(program, document["key"])
    if "max_attempts" in document and isinstance(document["max_attempts"], int) and "max_retries" not in document:
        document["max_retries"] = document.pop("max_attempts") - 1
    policy = document.get("retry_policy")
    if isinstance(policy, str) and policy in POLICIES and policy != ATLAS.name:
        document.setdefault("max_retries", POLICIES[policy].max_retries)
    try:
        spec = DefinitionSpec.model_validate(document)
    except ValidationError as error:
        raise InvalidInput("The definition", field_errors(error)) from error
    _check(spec)
    return spec


def _default_argv(program: str | None, key: str) -> list[str]:
    if program is None:
        raise InvalidInput(
            "The definition",
            [FieldError("argv", "is required: this installation has no program of its own")],
            remedy="Name the program and its arguments in `argv`, or set ATLAS_COMMAND_PROGRAM to the program's path.",
        )
    return [program, key, "--tenant-id", "{{ tenant.id }}"]


def _check(spec: DefinitionSpec) -> None:
    errors = []
    if spec.key in RESERVED:
        errors.append(FieldError("key", "is a job type of Atlas itself"))
    if holds_nul(orjson.dumps(spec.model_dump()).decode()):
        errors.append(FieldError("", "contains the character U+0000"))
    errors += check_key(spec.concurrency, spec.concurrency_key, spec.rate, spec.burst)
    unusable = check_schema(spec.arg_schema, field="arg_schema") + _check_root(spec.arg_schema)
    # An unusable schema does not say which fields there are.
    errors += unusable or check_argv(spec.argv, spec.arg_schema, spec.programs) + check_env(spec.env, spec.arg_schema)
    try:
        spec.policy.delay(0)
    except InvalidInput as error:
        errors += error.errors
    if errors:
        raise InvalidInput("The definition", errors)


def _check_root(schema: Mapping[str, Any]) -> list[FieldError]:
    if schema.get(MARK) is True:
        return [FieldError(f"arg_schema.{MARK}", "marks the whole input; mark the fields that are secret")]
    if schema and schema.get("type") != "object":
        return [FieldError("arg_schema.type", 'is not "object", and an input is one')]
    return []
