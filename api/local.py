"""The API for the person at the terminal, within the process of their command: no listener, no token, no middleware.

Only the routes of the addresses that are called are loaded, and errors are raised as they are. Whoever can connect to
the database is an operator there; the audit log records their login.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib import import_module
from uuid import UUID

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from atlas.api.access.authentication import Caller, Callers
from atlas.api.app_state import AppState
from atlas.api.db import Database
from atlas.api.field_errors import fields_of
from atlas.api.limits.helpers import HelperShares
from atlas.api.limits.rates import Rates
from atlas.api.replica.replica import Replica, ReplicaRead
from atlas.db.pool import Connection, Pool
from atlas.db.replica import caught_up
from atlas.engine.helper_process import Run, run_here
from atlas.errors import InvalidInput
from atlas.models.tenants import Token
from atlas.settings import Settings

# The modules of `api/resources/` by the first part of their addresses, in the order in which they are asked.
MODULES = {
    "admin": ("jobs.definitions",),
    "approvals": ("workflows.approvals",),
    "audit": ("audit.audit",),
    "effects": ("effects.effects",),
    "events": ("triggers.events",),
    "grants": ("access.grants",),
    "groups": ("jobs.groups",),
    "hosts": ("workers.hosts",),
    "ids": ("system.ids",),
    "inbound-hooks": ("triggers.inbound_hooks",),
    "insights": ("metering.insights",),
    "intents": ("workflows.intents",),
    "job-types": ("system.system",),
    "jobs": ("jobs.jobs", "jobs.job_actions"),
    "outbox": ("effects.outbox",),
    "overview": ("metering.overview",),
    "pauses": ("system.pauses",),
    "policies": ("workflows.policies",),
    "recurring": ("triggers.recurring",),
    "runs": ("workflows.runs",),
    "session": ("access.session",),
    "sessions": ("access.sessions",),
    "system": ("system.system",),
    "tenants": ("access.tenants",),
    "tokens": ("access.tokens",),
    "usage": ("system.system",),
    "webhooks": ("triggers.webhooks",),
    "workers": ("system.system", "workers.workers"),
    "workflow-schema": ("workflows.workflows",),
    "workflows": ("workflows.workflows",),
}
# Those whose addresses are told apart by the second part.
INNER = {
    ("audit", "checkpoints"): ("audit.audit_seals",),
    ("audit", "key"): ("audit.audit_seals",),
    ("audit", "reports"): ("audit.reports",),
    ("audit", "seals"): ("audit.audit_seals",),
    ("audit", "status"): ("audit.audit_seals",),
    ("audit", "verifications"): ("audit.verifications",),
    ("jobs", "bulk"): ("jobs.bulk_actions",),
    ("jobs", "dead-letters"): ("jobs.dead_letters",),
    ("jobs", "series"): ("metering.series",),
    ("jobs", "triggers"): ("triggers.triggers",),
}
PREFIX = "/api/v1/"


class LocalApi:
    """An ASGI application on an open pool, whose one caller has this login."""

    def __init__(self, settings: Settings, pool: Pool, url: str, *, login: str) -> None:
        self._app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
        self._app.state.api = LocalState(settings, pool, url, login=login)
        self._app.add_exception_handler(RequestValidationError, _raise_invalid)
        self._loaded: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._load(modules_of(scope["path"]))
        scope["atlas.headers"] = dict(scope["headers"])
        scope["atlas.request_id"] = None
        await self._app(scope, receive, send)

    def _load(self, modules: tuple[str, ...]) -> None:
        for name in modules:
            if name not in self._loaded:
                self._loaded.add(name)
                for part in vars(import_module(f"atlas.api.resources.{name}")).values():
                    if isinstance(part, APIRouter):
                        self._app.router.routes.extend(part.routes)


def modules_of(path: str) -> tuple[str, ...]:
    """The modules of `api/resources/` that may have the route of an address."""
    first, second, *_ = [*path.removeprefix(PREFIX).split("/"), ""]
    return INNER.get((first, second)) or MODULES[first]


class LocalState(AppState):
    """The state of such an application. It checks documents in this process."""

    def __init__(self, settings: Settings, pool: Pool, url: str, *, login: str) -> None:
        super().__init__(settings, pool, url, tick=None, rates=Rates())
        self.db = LocalDatabase(pool)
        self.replica = None if settings.atlas_read_database_url is None else LocalReplica(settings, pool)
        self.callers = LocalCallers(self.db, Rates(), login)
        self.helper_shares = LocalHelpers()


class LocalCallers(Callers):
    """Identifies every request as the person at the terminal."""

    def __init__(self, db: Database, rates: Rates, login: str) -> None:
        super().__init__(db, rates)
        token = Token(
            id=UUID(int=0),
            prefix="",
            subject=login,
            role="operator",
            tenant_id=None,
            scopes={},
            created_at=datetime.now(UTC),
            expires_at=None,
            last_used_at=None,
            revoked_at=None,
            created_by=login,
        )
        self._caller = Caller(token, is_local=True)

    async def identify(self, request: HTTPConnection) -> Caller:
        """The person at the terminal."""
        return self._caller


class LocalDatabase(Database):
    """The pool of a command, whose connections have their timeouts already. No one else has a share of it."""

    @asynccontextmanager
    async def transaction(
        self,
        tenant_id: UUID | None,
        *,
        read_only: bool = False,
        share: Hashable = None,
        check: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> AsyncIterator[Connection]:
        """A transaction that sees everything: whoever is at the terminal belongs to no tenant."""
        assert tenant_id is None
        async with self.pool.acquire() as conn, conn.transaction(readonly=read_only):
            if check is not None:
                await check(conn)
            yield conn

    @asynccontextmanager
    async def connection(
        self, *, share: Hashable = None, within: float | None = None, watched: bool = True
    ) -> AsyncIterator[Connection]:
        """A connection without a transaction."""
        async with self.pool.acquire() as conn:
            yield conn


class LocalReplica(Replica):
    """The replica of a command, which waits until it shows all that was committed before each read."""

    def __init__(self, settings: Settings, primary: Pool) -> None:
        self._settings = settings
        self._primary = primary

    def wrote(self, token_id: UUID) -> None:
        """Every read sees what was written before it."""

    def read(self, token_id: UUID, *, live: bool) -> ReplicaRead:
        """The reads of a request."""
        return LocalRead(self._settings, self._primary)


class LocalRead(ReplicaRead):
    """The transactions of one request, on the primary where the replica cannot be used."""

    def __init__(self, settings: Settings, primary: Pool) -> None:
        self.age = 0.0
        self._settings = settings
        self._primary = primary

    @asynccontextmanager
    async def transaction(self, tenant_id: UUID | None, *, share: Hashable) -> AsyncIterator[Connection]:
        """A transaction that sees everything, and can only read."""
        async with (
            self._primary.acquire() as primary,
            caught_up(self._settings, primary) as conn,
            conn.transaction(readonly=True),
        ):
            yield conn


class LocalHelpers(HelperShares):
    """Runs in this process what the API gives to a helper: a command has nothing else to do."""

    def __init__(self) -> None:
        pass

    @asynccontextmanager
    async def taken(self, caller: Hashable) -> AsyncIterator[Run]:
        """Call functions here."""
        yield run_here


async def _raise_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    raise InvalidInput("The request", fields_of(error.errors(), getattr(error, "model", None), error.body))
