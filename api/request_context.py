"""A call: who asks, for which tenant, and the transactions it may open."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request

from atlas.actors import Actor, ActorType
from atlas.api.app_state import AppState
from atlas.api.authentication import AGENTS, Caller, address_of
from atlas.db.pool import Connection
from atlas.engine.jobs import SYSTEM_TENANT
from atlas.engine.tenants import Tenant
from atlas.errors import FieldError, InvalidInput, NotFound

TENANT_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(slots=True)
class RequestContext:
    """One request of a known caller. `tenant_id` is whose things exist for it; None means everyone's."""

    api: AppState
    caller: Caller
    tenant_id: UUID | None
    address: str
    request_id: str

    @property
    def actor(self) -> Actor:
        """Who the account says did it."""
        kind: ActorType = "agent" if self.caller.role in AGENTS else "user"
        return Actor(kind, self.caller.subject, self.address, self.request_id, self.caller.token.prefix)

    @property
    def home(self) -> UUID:
        """Whose a new thing is: work that an operator names no tenant for is Atlas's own."""
        return self.tenant_id or SYSTEM_TENANT

    async def home_tenant(self) -> Tenant:
        """The same, as the tenant itself."""
        return await self.api.tenant(self.home)

    async def recheck(self) -> None:
        """Refuse to go on if the credential is no longer good; for calls that last. Mostly that is remembered."""
        assert self.caller.again is not None
        await self.caller.again()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Connection]:
        """A transaction that reads, behind the wall of the caller's tenant."""
        async with self.api.transaction(self.caller.tenant_id, read_only=True, share=self.caller.share) as conn:
            yield conn

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Connection]:
        """A transaction that changes things, behind the wall of the caller's tenant."""
        async with self.api.transaction(self.caller.tenant_id, share=self.caller.share) as conn:
            yield conn

    @asynccontextmanager
    async def as_engine(self) -> AsyncIterator[Connection]:
        """A transaction that reads in front of the wall, for verbs that must see other tenants' rows to serve this one.

        A proof walks through everyone's leaves, an estimate through everyone's statistics: each is told the tenant.
        """
        async with self.api.transaction(None, read_only=True, share=self.caller.share) as conn:
            yield conn

    @asynccontextmanager
    async def claiming(self) -> AsyncIterator[Connection]:
        """A connection in front of the wall and without a transaction, for claims and what follows them.

        They count the limits of all tenants, and each of their statements is whole and fenced by itself.
        """
        async with self.api.acquire(share=self.caller.share) as conn:
            yield conn


async def open_call(api: AppState, caller: Caller, request: Request, request_id: str) -> RequestContext:
    """The call of a request; `?tenant=` is an operator's to choose, and everyone else's to confirm."""
    tenant_id = caller.tenant_id
    if request.scope["query_string"]:
        wanted = request.query_params.getlist("tenant")
        if wanted:
            tenant_id = await named_tenant(api, caller, wanted[-1])
    return RequestContext(api, caller, tenant_id, address_of(request), request_id)


async def named_tenant(api: AppState, caller: Caller, slug_or_id: str) -> UUID:
    """The tenant that a caller names, if it exists for the caller."""
    if not TENANT_NAME.fullmatch(slug_or_id):
        raise InvalidInput("The request", [FieldError("query.tenant", "is neither a slug nor an id")])
    found = await api.tenant(slug_or_id)
    if caller.tenant_id not in (None, found.id):
        # The same words as for a tenant that does not exist.
        raise NotFound("tenant", slug_or_id, remedy="`atlas tenant list` shows the tenants there are.")
    return found.id


async def _call(request: Request) -> RequestContext:
    call: RequestContext = request.scope["atlas.call"]
    return call


Calling = Annotated[RequestContext, Depends(_call)]
