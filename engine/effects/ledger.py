"""The ledger of an attempt's effects: each change is one guarded statement, with its audit row."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from atlas.db.pg_json import stored_json
from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, fetch_value, statement
from atlas.engine.secrets.redact import Redactor
from atlas.ids import new_id

BEGIN = statement("engine/effects/sql/begin_effect.sql")
END = statement("engine/effects/sql/end_effect.sql")
ASK = statement("engine/effects/sql/ask_about_effect.sql")

R = TypeVar("R")


class Work(Protocol):
    """Does something on a connection to the database of Atlas."""

    def __call__(self, call: Callable[[Connection], Awaitable[R]], /) -> Awaitable[R]:
        """Call it with a connection, and return what it returned."""


class BegunEffect(NamedTuple):
    """An effect as its row is now. `verdict`: `call`, `done`, `doubt`, `busy` or `lost`."""

    id: UUID
    verdict: str
    reference: str | None
    # Seconds since its first and since its last call.
    age: float
    since: float


class Ledger(Protocol):
    """Records the effects of one attempt."""

    job_id: UUID
    attempt: int
    # The path of the step in a run; empty for a job.
    step: str

    async def begin(self, name: str, key: str, detail: Mapping[str, Any], *, again: bool = False) -> BegunEffect:
        """Record that the effect is intended, or return what is known of it. `again`: it may be called once more."""

    async def end(
        self,
        id: UUID,
        state: str,
        *,
        reference: str | None = None,
        reason: str = "",
        found: bool = False,
        within: float | None = None,
    ) -> str:
        """Record what became of a call; `found`: of an earlier attempt's. Returns `ended`, `late` or `taken`.

        Raises TimeoutError if that takes longer than `within` seconds.
        """

    async def ask(self, id: UUID, question: str, reason: str) -> str:
        """Let the job wait for a person's answer. Returns `asked`, `lost`, or `canceled` if it was asked to stop."""


class EffectLedger:
    """That of the database, fenced by the worker and the number of the attempt."""

    def __init__(
        self,
        work: Work,
        worker_id: str,
        job_id: UUID,
        attempt: int,
        *,
        step: str = "",
        redactor: Redactor | None = None,
    ) -> None:
        self._work = work
        self.job_id = job_id
        self.attempt = attempt
        self.step = step
        self._redactor = redactor
        self._attempt = {"worker": worker_id, "job_id": job_id, "attempt": attempt}

    async def begin(self, name: str, key: str, detail: Mapping[str, Any], *, again: bool = False) -> BegunEffect:
        """Insert the row, or take over the row of an earlier attempt."""
        text = stored_json(dict(detail))
        if self._redactor is not None:
            text = self._redactor.json(text)
        values = {"id": new_id(), "step": self.step, "name": name, "key": key, "detail": text, "again": again}

        async def begin(conn: Connection) -> Any:
            return await fetch_row(conn, BEGIN, **self._attempt, **values)

        return BegunEffect(*await self._work(begin))

    async def end(
        self,
        id: UUID,
        state: str,
        *,
        reference: str | None = None,
        reason: str = "",
        found: bool = False,
        within: float | None = None,
    ) -> str:
        """Update the row, which is the fence."""
        if self._redactor is not None:
            reason = self._redactor.text(reason)
            reference = None if reference is None else self._redactor.text(reference)
        values = {"id": id, "state": state, "reference": reference, "reason": reason, "found": found}

        async def end(conn: Connection) -> Any:
            return await fetch_value(conn, END, **self._attempt, **values)

        async with asyncio.timeout(within):
            return str(await self._work(end))

    async def ask(self, id: UUID, question: str, reason: str) -> str:
        """Update the job and the row in one statement. A run suspends itself: for its step, only the row."""
        if self.step:
            await self.end(id, "unknown", reason=f"{question} {reason}".strip(), found=True)
            return "asked"

        async def ask(conn: Connection) -> Any:
            return await fetch_value(conn, ASK, **self._attempt, id=id, question=question, reason=reason)

        return str(await self._work(ask))
