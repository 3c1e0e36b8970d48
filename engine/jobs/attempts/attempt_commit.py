"""The commit of an attempt: what its handler wrote, its outcome and its audit row, in one transaction.

The last statement of that transaction calls `commit_attempt`, which is fenced by worker, attempt and lease. An attempt
has a token, made with the key of its worker, so that the login of an application ends no attempt but its own.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from atlas.db.pool import Connection
from atlas.db.schema import in_schema
from atlas.db.statements import statement
from atlas.engine.jobs.finish import Finish

COMMIT = statement("engine/jobs/attempts/sql/commit_attempt.sql")


@dataclass(slots=True)
class AttemptTransaction:
    """The transaction that ends an attempt, and what is recorded with it."""

    # None: it belongs to another library.
    connection: "Connection | None" = None
    output: Any = None
    # The outcome that is recorded with it, once the call of `commit_attempt` was made.
    finish: Finish | None = None
    is_committed: bool = False


class CommitCall(NamedTuple):
    """The arguments of `commit_attempt`."""

    worker: str
    jobs: str
    step: str | None = None

    def values(self) -> list[Any]:
        """For a driver that sends them beside the statement."""
        return COMMIT.bind(self._asdict())

    def text(self) -> str:
        """The call as one text, to be sent in one message with the commit: the job's row is not locked in between."""
        arguments = ", ".join("null" if value is None else _literal(value) for value in self)
        return in_schema(f"select atlas.commit_attempt({arguments});")


def _literal(value: str) -> str:
    """A text that holds no quote, whatever it says and however the session reads literals."""
    read = f"convert_from(decode('{value.encode().hex()}', 'hex'), 'UTF8')"
    return f"{read}::jsonb" if value[:1] in "[{" else read


def attempt_token(key: bytes, job_id: UUID, attempt: int) -> str:
    """The token of an attempt. The SQL function of this name makes the same."""
    inner = hashlib.sha256(key + f"{job_id}:{attempt}".encode()).digest()
    return hashlib.sha256(key + inner).hexdigest()


def finishing(worker_id: str, key: bytes, finishes: Sequence[Finish]) -> CommitCall:
    """The call that ends attempts with these outcomes."""
    return CommitCall(worker_id, call_json([_job(finish, key) for finish in finishes]))


def _job(finish: Finish, key: bytes) -> dict[str, Any]:
    row: dict[str, Any] = {"id": finish.job_id, "attempt": finish.attempt, "action": finish.action}
    row["token"] = attempt_token(key, finish.job_id, finish.attempt)
    for name in ("output", "meta", "detail"):
        if (text := getattr(finish, name)) is not None:
            row[name] = orjson.Fragment(text)
    for name in ("message", "cost"):
        if (value := getattr(finish, name)) is not None:
            row[name] = value
    return row


def call_json(value: Any) -> str:
    """An argument of the call."""
    return orjson.dumps(value, default=str).decode()
