"""Quotas: how many tokens, hosts, triggers and so on a tenant may have, counted in the transaction that adds one.

Additions of one kind wait for each other, so two at the same time do not exceed a quota. An operator raises or lowers
the quotas of a tenant by its limit `quotas`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch_row, fetch_value, statement
from atlas.engine.jobs.new_jobs.refusals import closed_tenant
from atlas.errors import Conflict

TAKE = statement("engine/access/sql/take_quota.sql")

# Counts what a tenant has of one kind, or of the owner that the last argument names.
Count = Callable[[Connection, UUID | None, str], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Quota:
    """How many of one kind there may be, how they are counted, and how to make room."""

    most: int
    count: Count
    room: str


def _by_sql(path: str) -> Count:
    query = statement(path)

    async def count(conn: Connection, tenant_id: UUID | None, of: str) -> int:
        owner = {"tenant_id": tenant_id, "of": of}
        number: int = await fetch_value(conn, query, **{name: owner[name] for name in query.names})
        return number

    return count


def _of_tenant(model: str, **columns: Any) -> Count:
    async def count(conn: Connection, tenant_id: UUID | None, of: str) -> int:
        where = {"tenantId": None if tenant_id is None else str(tenant_id), **columns}
        number: int = await getattr(prisma_on(conn), model).count(where=where)
        return number

    return count


def _versions(conn: Connection, tenant_id: UUID | None, of: str) -> Awaitable[int]:
    return _of_tenant("workflow", key=of, kind="declared")(conn, tenant_id, of)


# All quotas. They are of a tenant, unless the name says what they are of. Definitions belong to the installation, as do
# policies and workflows for all tenants.
QUOTAS: dict[str, Quota] = {
    "tokens": Quota(1_000, _by_sql("engine/access/sql/count_tokens.sql"), "Revoke one"),
    "sessions_of_a_token": Quota(100, _by_sql("engine/access/sql/count_sessions.sql"), "Sign out elsewhere"),
    "hosts": Quota(1_000, _of_tenant("host"), "Use a host that exists"),
    "servers_of_a_host": Quota(
        100, lambda conn, _, host: prisma_on(conn).serverinstance.count(where={"hostId": host}), "Use another host"
    ),
    "triggers": Quota(1_000, _of_tenant("jobtrigger", deletedAt=None), "Remove one"),
    "webhooks": Quota(100, _of_tenant("webhook"), "Remove one"),
    "inbound_hooks": Quota(100, _of_tenant("inboundhook"), "Remove one"),
    "workflows": Quota(
        500, _by_sql("engine/workflows/declared/sql/count_workflows.sql"), "Save it under a key that exists"
    ),
    "versions_of_a_workflow": Quota(1_000, _versions, "Save it under another key"),
    "definitions": Quota(5_000, lambda conn, _, __: prisma_on(conn).jobdefinition.count(), "Edit one that is disabled"),
    "policies": Quota(200, _of_tenant("policyrule"), "Remove one"),
}


class QuotaReached(Conflict):
    """There are as many of these as there may be."""

    def __init__(self, kind: str, most: int, *, of_tenant: bool) -> None:
        raised = f", or have an operator raise the tenant's limit quotas.{kind}" if of_tenant else ""
        super().__init__(
            f"The limit of {most:,} {kind.replace('_', ' ')} is reached.",
            remedy=f"{QUOTAS[kind].room}{raised}.",
        )


async def require_room(conn: Connection, kind: str, tenant_id: UUID | None, *, of: str = "") -> None:
    """Raise QuotaReached if a tenant, or what belongs to no tenant, has its quota of a kind; `of` names its owner.

    Until the transaction ends, no other adds one. A tenant that is being removed gets nothing new.
    """
    quota = QUOTAS[kind]
    allowed = await fetch_row(conn, TAKE, kind=kind, tenant_id=tenant_id, of=of)
    assert allowed is not None
    if allowed["is_closed"]:
        assert tenant_id is not None
        raise await closed_tenant(conn, tenant_id)
    most: int = quota.most if allowed["most"] is None else allowed["most"]
    if await quota.count(conn, tenant_id, of) >= most:
        raise QuotaReached(kind, most, of_tenant=tenant_id is not None)
