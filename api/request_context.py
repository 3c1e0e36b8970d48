"""The context of a request: its caller, its tenant, and the transactions it may open."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, TypeVar
from uuid import UUID

from fastapi import Depends, Request, Response

from atlas.actors import Actor, ActorType
from atlas.api.access.authentication import Caller, address_of
from atlas.api.app_state import AppState
from atlas.api.http.etags import validators
from atlas.api.replica.replica import ReplicaRead
from atlas.db.pool import Connection
from atlas.engine.etags import Editable
from atlas.engine.helper_process import Run
from atlas.engine.jobs.lists.counts import Transaction
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.errors import FieldError, InvalidInput, TenantMoved, no_tenant
from atlas.models.tenants import Tenant

E = TypeVar("E", bound=Editable)

TENANT_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
# What changes nothing of a tenant: reading, verifying its audit log, signing in and out.
READING = frozenset(("GET", "HEAD", "OPTIONS"))
STAYS_OPEN = ("/api/v1/audit", "/api/v1/session")


@dataclass(slots=True)
class RequestContext:
    """One request of an authenticated caller. It sees the rows of `tenant_id`; None means all tenants."""

    api: AppState
    caller: Caller
    tenant_id: UUID | None
    # The address of the caller, where the request may leave an event.
    ip_commitment: str | None
    request_id: str
    # Where its transactions are, while its route reads from the replica.
    replica: ReplicaRead | None = None
    # The transaction that all of the request shares, where it has an idempotency key.
    _joined: "Connection | None" = None
    _helper: Run | None = None
    _response: Response | None = None
    _after: list[Callable[[], None]] = field(default_factory=list)

    @property
    def actor(self) -> Actor:
        """The actor that the audit log records."""
        if self.caller.is_local:
            return Actor("user", self.caller.subject)
        kind: ActorType = "agent" if self.caller.is_agent else "user"
        session = None if self.caller.session is None else self.caller.session.id
        return Actor(kind, self.caller.subject, self.ip_commitment, self.request_id, self.caller.token.prefix, session)

    @property
    def home(self) -> UUID:
        """The tenant of what the request creates: Atlas's own where an operator names none."""
        return self.tenant_id or SYSTEM_TENANT

    async def home_tenant(self) -> Tenant:
        """The same, as the tenant itself."""
        return await self.api.tenants.find(self.home)

    async def recheck(self) -> None:
        """Raise Unauthenticated if the credential is no longer valid; for requests that last. Mostly a cache hit."""
        assert self.caller.again is not None
        await self.caller.again()

    def transaction(
        self, *, read_only: bool = False, all_tenants: bool = False
    ) -> AbstractAsyncContextManager[Connection]:
        """A transaction under the row-level security of the caller's tenant.

        With `all_tenants`, for verbs that must read other tenants' rows to serve this one: a proof uses everyone's
        leaves, a large count the meter of everyone's events. Each of those verbs is passed the tenant.
        While the route reads from the replica, every transaction is one there, and nothing can be written.
        """
        if self._joined is not None and not all_tenants:
            return nullcontext(self._joined)
        tenant_id = None if all_tenants else self.caller.tenant_id
        if self.replica is not None:
            return self.replica.transaction(tenant_id, share=self.caller.share)
        return self.api.db.transaction(tenant_id, read_only=read_only, share=self.caller.share)

    def summary_transactions(self) -> tuple[Transaction, Transaction, Transaction | None]:
        """For summaries: to read what the caller sees, to read everything, and to update what is kept of everything."""
        read = partial(self.transaction, read_only=True)
        write = partial(self.transaction, all_tenants=True)
        return read, partial(read, all_tenants=True), write if self.replica is None else None

    @property
    def is_joined(self) -> bool:
        """Whether all of the request is one transaction."""
        return self._joined is not None

    @asynccontextmanager
    async def joined_transaction(self, *, helper: bool) -> AsyncIterator[Connection]:
        """A transaction that `transaction` returns too, and a helper that `helper` does, while the block lasts."""
        async with AsyncExitStack() as held:
            if helper:
                self._helper = await held.enter_async_context(self.helper())
            self._joined = await held.enter_async_context(self.transaction())
            try:
                yield self._joined
            finally:
                self._joined = self._helper = None
        for callback in self._after:
            callback()

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call this when what the last transaction did is committed: now, or when the joined one ends."""
        if self.is_joined:
            self._after.append(callback)
        else:
            callback()

    def tagged(self, edited: E) -> E:
        """What was read or edited; the response names its state."""
        assert self._response is not None
        self._response.headers.update(validators(edited))
        return edited

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """A connection without row-level security and without a transaction, for claims and what follows them.

        They count the limits of all tenants, and each of their statements is atomic and fenced by itself.
        """
        return self.api.db.connection(share=self.caller.share)

    def helper(self) -> AbstractAsyncContextManager[Run]:
        """A helper process, for what would hold the event loop. Take it before a connection, which it would keep."""
        if self._helper is not None:
            return nullcontext(self._helper)
        return self.api.helper_shares.taken(self.caller.share)


async def open_call(
    api: AppState, caller: Caller, request: Request, request_id: str, *, leaves_event: bool
) -> RequestContext:
    """The context of a request. An operator may choose any `?tenant=`, everyone else only their own."""
    tenant_id = caller.tenant_id
    if request.scope["query_string"]:
        tenants = request.query_params.getlist("tenant")
        if len(tenants) > 1:
            raise InvalidInput("The request", [FieldError("query.tenant", "was sent several times")])
        if tenants:
            tenant_id = await named_tenant(api, caller, tenants[0])
    if tenant_id is not None and request.method not in READING and not request.scope["path"].startswith(STAYS_OPEN):
        await _require_here(api, tenant_id)
    address = await api.addresses.commitment(caller.tenant_id, address_of(request)) if leaves_event else None
    return RequestContext(api, caller, tenant_id, address, request_id)


async def _require_here(api: AppState, tenant_id: UUID) -> None:
    """Refuse to change what belongs to a tenant that moved: it would be lost. The cache may be some seconds behind."""
    tenant = api.tenants.peek(str(tenant_id)) or await api.tenants.find(tenant_id)
    if tenant.moving_at is not None:
        raise TenantMoved(tenant.slug, tenant.moving_to or "")


async def named_tenant(api: AppState, caller: Caller, slug_or_id: str) -> UUID:
    """The tenant that a caller names, if it exists for the caller."""
    if not TENANT_NAME.fullmatch(slug_or_id):
        raise InvalidInput("The request", [FieldError("query.tenant", "is neither a slug nor an id")])
    if caller.tenant_id is None:
        return (await api.tenants.find(slug_or_id)).id
    # Compared with its own alone: a lookup would take longer for a tenant that does not exist than for a cached one.
    own = await api.tenants.find(caller.tenant_id)
    if slug_or_id not in (own.slug, str(own.id)):
        raise no_tenant(slug_or_id)
    return own.id


async def _call(request: Request, response: Response) -> RequestContext:
    call: RequestContext = request.scope["atlas.call"]
    call._response = response
    return call


Calling = Annotated[RequestContext, Depends(_call)]
