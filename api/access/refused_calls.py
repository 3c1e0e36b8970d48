"""Calls that a caller may not make (403), as events of the audit log: one a credential, route and minute, counted.

Who tries out what a credential may do cannot fill the log: beyond some calls a minute, the rest is counted together.
"""

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from starlette.types import Scope

from atlas.actors import Actor, system
from atlas.api.access.authentication import Caller
from atlas.api.access.caller_addresses import CallerAddresses
from atlas.api.db import Database
from atlas.api.http.client_address import plain_address
from atlas.audit.record import Event, record

# Pairs of a credential and a route, and credentials beyond them that are counted without their routes.
MAX_CALLS = 100
MAX_CREDENTIALS = 50
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that is refused: by whom, and of which route. Without a caller: of all others."""

    route: str
    token_id: UUID | None = None
    caller: Caller | None = field(default=None, compare=False)
    address: str | None = field(default=None, compare=False)


class RefusedCalls:
    """Counts calls that were refused with 403, by credential and route, until they are recorded."""

    def __init__(self) -> None:
        self._counts: Counter[_Call] = Counter()

    def count(self, scope: Scope) -> None:
        """Count a request that was refused; a request whose caller is unknown is not counted for a credential."""
        caller: Caller | None = scope.get("atlas.caller")
        if caller is None:
            return
        route = f"{scope.get('method', 'GET')} {getattr(scope.get('route'), 'path_format', OTHERS)}"
        address = plain_address(scope["client"][0]) if scope.get("client") else None
        call = _Call(route, caller.token.id, caller, address)
        if call not in self._counts and len(self._counts) >= MAX_CALLS:
            call = _Call(OTHERS, caller.token.id, caller, address)
            if call not in self._counts and len(self._counts) >= MAX_CALLS + MAX_CREDENTIALS:
                call = _Call(OTHERS)
        self._counts[call] += 1

    async def record(self, db: Database, addresses: CallerAddresses) -> None:
        """Record what was counted so far."""
        counts = dict(self._counts)
        if not counts:
            return
        events = [await _event(call, count, addresses) for call, count in counts.items()]
        async with db.transaction(None) as conn:
            for event in events:
                await record(conn, event)
        self._counts.subtract(counts)
        self._counts += Counter()


async def _event(call: _Call, count: int, addresses: CallerAddresses) -> Event:
    if call.caller is None:
        return Event("CALLS_REFUSED", "credential", OTHERS, system("api"), level="warn", meta={"count": count})
    caller = call.caller
    commitment = await addresses.commitment(caller.tenant_id, call.address)
    actor = Actor("agent" if caller.is_agent else "user", caller.subject, commitment, None, caller.token.prefix)
    meta = {"route": call.route, "count": count, "role": caller.role}
    return Event("CALLS_REFUSED", "credential", str(call.token_id), actor, caller.tenant_id, level="warn", meta=meta)
