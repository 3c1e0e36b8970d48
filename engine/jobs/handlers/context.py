"""The context of one attempt: what a handler can read about its job and report, and what the worker keeps with it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVarTuple, Unpack
from uuid import UUID

from atlas.db.pool import Connection, Pool
from atlas.engine.jobs.attempts.attempt_commit import AttemptTransaction, CommitCall
from atlas.engine.jobs.attempts.attempt_log import AttemptLog
from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.finish import Finish, Notes
from atlas.engine.jobs.handlers.arguments import require_mapping, require_progress, require_text, require_whole
from atlas.engine.jobs.start_right import StartRight
from atlas.engine.secrets.redact import Redactor
from atlas.errors import AtlasError
from atlas.logs import job_logger

if TYPE_CHECKING:
    import structlog

    from atlas.engine.effects.effect_call import EffectCall, OpenEffect
    from atlas.engine.effects.ledger import Ledger
    from atlas.engine.effects.outcomes import EffectOptions, ThreadEffectOptions

Arguments = TypeVarTuple("Arguments")
Report = Callable[[ClaimedJob, float | None, str | None], Awaitable[None]]


class JobContext:
    """One attempt, as its handler sees it."""

    __slots__ = ()

    @property
    def job_id(self) -> UUID:
        """The id of the job."""
        raise NotImplementedError

    @property
    def tenant_id(self) -> UUID:
        """The id of the tenant whose job it is."""
        raise NotImplementedError

    @property
    def attempt(self) -> int:
        """1 for the first attempt of the job."""
        raise NotImplementedError

    @property
    def worker_id(self) -> str:
        """The worker that runs the attempt."""
        raise NotImplementedError

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this job. Pass it to providers that support idempotency keys."""
        raise NotImplementedError

    @property
    def pool(self) -> Pool:
        """The connection pool of the worker, on the database of Atlas."""
        raise NotImplementedError

    @property
    def log(self) -> "structlog.stdlib.BoundLogger":
        """A logger with the job's ids bound. What it logs is kept with the attempt."""
        raise NotImplementedError

    @property
    def cancelled(self) -> bool:
        """True once a handler in a thread should stop: the job was canceled or timed out, or the worker stops."""
        raise NotImplementedError

    async def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Report how far the job is. It is shown immediately and not part of the audit log."""
        raise NotImplementedError

    def progress_from_thread(self, percent: float | None = None, message: str | None = None) -> None:
        """The same for a handler that runs in a thread."""
        raise NotImplementedError

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        """Open the transaction that ends the job: `async with ctx.transaction() as conn:`.

        What the block writes, the job's success and its audit row are one commit on the application's database. When
        the block raises, or the lease was lost, nothing of it stays.
        """
        raise NotImplementedError

    def effect(
        self,
        name: str,
        function: "Callable[[OpenEffect, *Arguments], Awaitable[str | None]] | None" = None,
        *arguments: *Arguments,
        **options: "Unpack[EffectOptions]",
    ) -> "EffectCall":
        """Call a provider outside of this database, and never repeat the call blindly.

        `reference = await ctx.effect("stripe.charge", charge, order)`: the function gets the effect first, whose `key`
        is for the provider, and returns the provider's reference. Once the effect is done the function is not called
        again. After a loss the provider is asked by `lookup`, or called with the same key if it is `repeatable`;
        else a person is asked. Without a function: `async with ctx.effect("stripe.charge") as effect:`.
        """
        raise NotImplementedError

    def effect_from_thread(
        self,
        name: str,
        function: "Callable[[OpenEffect, *Arguments], str | None]",
        *arguments: *Arguments,
        **options: "Unpack[ThreadEffectOptions]",
    ) -> str | None:
        """The same for a handler that runs in a thread, with plain functions. Returns the provider's reference."""
        raise NotImplementedError

    @property
    def connection(self) -> Connection:
        """The connection of the open transaction, also that of a handler with `transactional=True`."""
        raise NotImplementedError

    def output(self, value: Any) -> None:
        """Set the job's output within `transaction`. What the handler returns comes after the commit."""
        raise NotImplementedError

    def cost(self, cents: int) -> None:
        """Add to what the job has cost."""
        raise NotImplementedError

    def audit(self, action: str, *, message: str = "", meta: Mapping[str, Any] | None = None) -> None:
        """Set the audit event of a success and its facts, in place of the job type's own."""
        raise NotImplementedError


class Transactions(Protocol):
    """The transactions of a worker that end attempts."""

    def begin(self, *contexts: "AttemptContext") -> AbstractAsyncContextManager[Connection]:
        """Open one on the application's database, which ends these attempts."""

    def open(self) -> AbstractAsyncContextManager[Connection]:
        """Open one on the application's database. What its last statement does is its caller's."""

    def key_of(self, worker_id: str, job_id: UUID, attempt: int) -> bytes:
        """The key of the worker that has claimed a job under this id; LeaseLost if it goes under another now."""

    def commit_call(self, *contexts: "AttemptContext") -> CommitCall:
        """The call that ends these attempts, as the last statement of their transaction."""

    def ledger(self, context: "AttemptContext") -> "Ledger":
        """Where the effects of an attempt outside of the database are recorded."""


class AttemptContext(JobContext):
    """The same with what the worker keeps of the attempt. Handlers name JobContext, so editors offer them no more."""

    __slots__ = (
        *("_job", "_log", "_loop", "_notes", "_report", "_stop"),
        *("kept_log", "own_transaction", "pool", "redactor", "start_right", "threads", "transactions", "worker_id"),
    )

    def __init__(
        self,
        job: ClaimedJob,
        worker_id: str,
        pool: Pool,
        report: Report,
        start_right: StartRight,
        transactions: Transactions,
    ) -> None:
        self._job = job
        self.transactions = transactions
        # The one that ends the attempt. None: it has begun none.
        self.own_transaction: AttemptTransaction | None = None
        self.start_right = start_right
        self.worker_id: str = worker_id
        self.pool: Pool = pool
        self._report = report
        self._notes: Notes | None = None
        self._log: structlog.stdlib.BoundLogger | None = None
        self._stop: threading.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # What its handler has logged. None: nothing yet.
        self.kept_log: AttemptLog | None = None
        # Removes the secrets of the input from what the attempt reports. None: it has none.
        self.redactor: Redactor | None = None
        # Threads that go on when the handler has ended. Its slot is free when they return.
        self.threads: Sequence[asyncio.Future[Any]] = ()

    @property
    def job(self) -> ClaimedJob:
        """The claimed row behind this attempt."""
        return self._job

    @property
    def job_id(self) -> UUID:
        return self._job.id

    @property
    def tenant_id(self) -> UUID:
        return self._job.tenant_id

    @property
    def attempt(self) -> int:
        return self._job.attempt

    @property
    def idempotency_key(self) -> str:
        return str(self._job.id)

    @property
    def log(self) -> "structlog.stdlib.BoundLogger":
        if self._log is None:
            facts = self._job.log_facts(self.worker_id)
            self._log = job_logger(self._keep, **facts, correlation_id=self._job.correlation_id)
        return self._log

    @property
    def cancelled(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    async def progress(self, percent: float | None = None, message: str | None = None) -> None:
        require_progress("ctx.progress", percent, message)
        if self.redactor is not None and message is not None:
            message = self.redactor.text(message)
        await self._report(self._job, percent, message)

    def progress_from_thread(self, percent: float | None = None, message: str | None = None) -> None:
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self.progress(percent, message), self._loop).result()

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        return self.transactions.begin(self)

    def effect(
        self,
        name: str,
        function: "Callable[[OpenEffect, *Arguments], Awaitable[str | None]] | None" = None,
        *arguments: *Arguments,
        **options: "Unpack[EffectOptions]",
    ) -> "EffectCall":
        # Jobs without effects do not load it.
        from atlas.engine.effects.effect_call import EffectCall

        return EffectCall(self._ledger(name), name, options, function, arguments)

    def effect_from_thread(
        self,
        name: str,
        function: "Callable[[OpenEffect, *Arguments], str | None]",
        *arguments: *Arguments,
        **options: "Unpack[ThreadEffectOptions]",
    ) -> str | None:
        from atlas.engine.effects.thread_effect import ThreadLedger, effect_in_thread

        if self._loop is None:
            raise AtlasError(
                f"The handler of the effect {name} does not run in a thread.", remedy="`await ctx.effect(…)` in it."
            )
        return effect_in_thread(ThreadLedger(self._ledger(name), self._loop), name, function, arguments, options)

    def _ledger(self, name: str) -> "Ledger":
        """Where an effect is recorded, which must not be made in the transaction that ends the job."""
        if self.own_transaction is not None and not self.own_transaction.is_committed:
            raise AtlasError(
                f"The effect {name} would be made within the transaction that ends the job.",
                remedy="Make it before the transaction: the effect stays if the commit is refused.",
            )
        return self.transactions.ledger(self)

    @property
    def connection(self) -> Connection:
        opened = self._opened()
        if opened.connection is None:
            raise AtlasError("The transaction belongs to another library.", remedy="Use the connection that began it.")
        return opened.connection

    def output(self, value: Any) -> None:
        self._opened().output = value

    def _opened(self) -> AttemptTransaction:
        if self.own_transaction is None or self.own_transaction.is_committed:
            raise AtlasError(
                "No transaction of the job is open.",
                remedy="Use it within `async with ctx.transaction():`, or in a handler with transactional=True.",
            )
        return self.own_transaction

    def cost(self, cents: int) -> None:
        require_whole("ctx.cost", "cents", cents)
        require_whole("ctx.cost", "the sum of cents", self.notes.cost + cents)
        self.notes.cost += cents

    @property
    def notes(self) -> Notes:
        """What is recorded with the outcome besides the handler's output."""
        if self._notes is None:
            self._notes = Notes()
        return self._notes

    def audit(self, action: str, *, message: str = "", meta: Mapping[str, Any] | None = None) -> None:
        require_text("ctx.audit", "action", action)
        require_text("ctx.audit", "message", message, may_be_empty=True)
        require_mapping("ctx.audit", "meta", meta)
        self.notes.audit_action = action
        self.notes.audit_message = message
        self.notes.audit_meta.update(meta or {})

    def _keep(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return self.attempt_log.add_event(logger, method, event)

    # For the worker.

    @property
    def attempt_log(self) -> AttemptLog:
        """Where to keep what the handler logs."""
        if self.kept_log is None:
            self.kept_log = AttemptLog(self._job.log_facts(self.worker_id))
        return self.kept_log

    def taken_notes(self) -> Notes | None:
        """The notes, if the handler made any."""
        return self._notes

    def runs_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        """Prepare for a handler in a thread."""
        self._loop = loop
        self._stop = threading.Event()

    @property
    def committed(self) -> Finish | None:
        """The outcome, once it is recorded by a transaction of the handler."""
        ended = self.own_transaction
        return ended.finish if ended is not None and ended.is_committed else None

    @property
    def stop_requested(self) -> threading.Event | None:
        """Set to stop a handler that runs in a thread."""
        return self._stop
