"""Grants: which job types of which tenants the login of another application may enqueue with the SQL function.

A grant has two parts: the login is a member of a role that may call `atlas.enqueue`, and a row of `enqueue_grants` for
each tenant and job type, which that function checks. Only the owner of the tables changes the membership; over the API
rows are added for a login that is a member. One whose last row is removed there stays a member without rights.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.db.pg_json import stored_text
from atlas.db.pool import Connection
from atlas.db.prisma import page_filter, prisma_on
from atlas.db.schema import role, schema_name
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.access.tokens import require_valid_creator
from atlas.engine.jobs.handlers.types import canonical
from atlas.engine.jobs.new_jobs.new_job import SERVER_TYPES, SYSTEM_TENANT
from atlas.errors import FieldError, InvalidInput, NotFound, Refused
from atlas.models.grants import EnqueueGrant
from atlas.models.tenants import Tenant

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import EnqueueGrantWhereInput

GRANT_ENQUEUE = statement("engine/access/sql/grant_enqueue.sql")
REVOKE_ENQUEUE = statement("engine/access/sql/revoke_enqueue.sql")
MAY_CALL = statement("engine/access/sql/may_call_enqueue.sql")
ADD = statement("engine/access/sql/add_enqueue_grant.sql")
REMOVE_ONE = statement("engine/access/sql/remove_enqueue_grant.sql")
REMOVE = statement("engine/access/sql/remove_enqueue_grants.sql")

# Made by several statements, which the SQL function refuses for everyone.
NOT_IN_SQL = SERVER_TYPES | {"ENGINE_RUN", "HTTP_CALL"}


async def grant_enqueue(
    conn: Connection, login: str, *, tenants: Sequence[Tenant], job_types: Sequence[str], actor: Actor
) -> list[EnqueueGrant]:
    """Let a login enqueue these types for these tenants. Returns the new grants; those it has already stay."""
    kinds = _checked(login, tenants, job_types)
    added: list[EnqueueGrant] = []
    with _owner_errors(login):
        async with conn.transaction():
            await require_valid_creator(conn, actor)
            if not await fetch_value(conn, MAY_CALL, login=_quoted(login), role=role("enqueuer")):
                await fetch(conn, GRANT_ENQUEUE, login=login)
            for tenant in tenants:
                for kind in kinds:
                    options = {"login": login, "tenant_id": tenant.id, "job_type": kind}
                    row = await fetch_row(conn, ADD, **options, created_by=actor.id)
                    if row is not None:
                        added.append(EnqueueGrant(**row))
                        await record(conn, _event("ENQUEUE_GRANTED", added[-1], actor))
    return added


async def revoke_enqueue(
    conn: Connection,
    login: str,
    *,
    tenant_id: UUID | None = None,
    job_type: str | None = None,
    actor: Actor,
) -> list[EnqueueGrant]:
    """Take grants away: all of a login, or those of a tenant or a type. Without any it may not call the function.

    The connection is of the owner of the tables.
    """
    kind = None if job_type is None else canonical(job_type)
    with _owner_errors(login):
        async with conn.transaction():
            rows = await fetch(conn, REMOVE, login=login, tenant_id=tenant_id, job_type=kind)
            for row in rows:
                await _record_removal(conn, EnqueueGrant(**row), actor)
            await fetch(conn, REVOKE_ENQUEUE, login=login)
    return [EnqueueGrant(**row) for row in rows]


async def revoke_grant(conn: Connection, grant_id: UUID, *, actor: Actor) -> EnqueueGrant:
    """Take one grant away. The login keeps the right to call the function, which refuses what is not granted."""
    async with conn.transaction():
        row = await fetch_row(conn, REMOVE_ONE, id=grant_id)
        if row is None:
            raise NotFound("grant", grant_id)
        await _record_removal(conn, EnqueueGrant(**row), actor)
    return EnqueueGrant(**row)


async def page_of_grants(
    conn: Connection, *, tenant_id: UUID | None, login: str | None = None, after: UUID | None = None, limit: int
) -> list[EnqueueGrant]:
    """A page of grants, in the order of their ids."""
    where: EnqueueGrantWhereInput = page_filter(tenant_id=tenant_id, login=login, after=after)
    rows = await prisma_on(conn).enqueuegrant.find_many(limit, where=where, order={"id": "asc"})
    return [_grant(row) for row in rows]


async def list_grants(
    conn: Connection, *, login: str | None = None, tenant_id: UUID | None = None
) -> list[EnqueueGrant]:
    """The grants, by login, tenant and type."""
    where: EnqueueGrantWhereInput = page_filter(tenant_id=tenant_id, login=login)
    order = [{"login": "asc"}, {"tenantId": "asc"}, {"jobType": "asc"}]
    rows = await prisma_on(conn).enqueuegrant.find_many(where=where, order=order)  # type: ignore[arg-type]
    return [_grant(row) for row in rows]


def _grant(row: "models.EnqueueGrant") -> EnqueueGrant:
    return EnqueueGrant(
        id=UUID(row.id),
        login=row.login,
        tenant_id=UUID(row.tenantId),
        job_type=row.jobType,
        created_by=row.createdBy,
        created_at=row.createdAt,
    )


def _quoted(login: str) -> str:
    """A login as an identifier, so that case and every character count."""
    return '"' + login.replace('"', '""') + '"'


def _checked(login: str, tenants: Sequence[Tenant], job_types: Sequence[str]) -> list[str]:
    """The types under their own names; InvalidInput with everything that is wrong."""
    kinds = [canonical(job_type) for job_type in job_types]
    wrong: list[FieldError] = []
    if not login or stored_text(login) != login:
        wrong.append(FieldError("login", "is empty, or contains a character that no name has"))
    if not tenants:
        wrong.append(FieldError("tenant", "is missing: name each tenant that the login may enqueue for"))
    if any(tenant.id == SYSTEM_TENANT for tenant in tenants):
        wrong.append(FieldError("tenant", "system is Atlas's own: add a tenant for the application"))
    if not kinds:
        wrong.append(FieldError("type", "is missing: name each job type that the login may enqueue"))
    for kind in kinds:
        if not 0 < len(kind) <= 200 or not kind.isprintable() or "*" in kind[:-1]:
            wrong.append(FieldError("type", f"{kind!r} is not a job type, or the beginning of some before a *"))
        elif kind in NOT_IN_SQL:
            wrong.append(FieldError("type", f"{kind} is not made by atlas.enqueue"))
    if wrong:
        raise InvalidInput("The grant", wrong)
    return kinds


async def _record_removal(conn: Connection, grant: EnqueueGrant, actor: Actor) -> None:
    await record(conn, _event("ENQUEUE_REVOKED", grant, actor), before=grant.model_dump(mode="json"))


def _event(action: str, grant: EnqueueGrant, actor: Actor) -> Event:
    facts = {"login": grant.login, "job_type": grant.job_type, "role": role("enqueuer")}
    return Event(action, "enqueue_grant", str(grant.id), actor, tenant_id=grant.tenant_id, meta=facts)


@contextmanager
def _owner_errors(login: str) -> Iterator[None]:
    try:
        yield
    except asyncpg.UndefinedObjectError as error:
        remedy = f"Create it first: create role \"{login}\" login password '…';"
        raise NotFound("login", login, remedy=remedy) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise Refused(
            f"This login may not grant it: {error}.",
            remedy=f"Have an administrator run: select {schema_name()}.grant_enqueue('{login}'); then try again.",
        ) from error
