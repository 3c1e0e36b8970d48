"""Tenants: the customers of an installation. Jobs, tokens and audit rows belong to one."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import asyncpg
import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from atlas.actors import Actor
from atlas.audit.changes import values_of
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.prisma import as_json, prisma_on
from atlas.db.statements import fetch_value, statement
from atlas.engine.access.quotas import QUOTAS
from atlas.engine.etags import Precondition, require_match
from atlas.engine.jobs.handlers.types import field_errors
from atlas.engine.jobs.limits import check_rate
from atlas.engine.retention.retention import DEFAULT_DAYS, ages_of
from atlas.engine.schedules.timezones import check_zone
from atlas.engine.validation import check_name
from atlas.errors import Conflict, FieldError, InvalidInput, TenantMoved, no_tenant
from atlas.ids import as_id, new_id
from atlas.models.rows import from_row
from atlas.models.tenants import Tenant

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import TenantUpdateInput, TenantWhereInput, TenantWhereUniqueInput

HOLD = statement("engine/tenants/sql/hold_tenant.sql")

_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
LIMITS = ("weight", "in_flight", "rate", "burst", "requests_per_second", "email", "quotas")
MAX_VALUE = 1_000_000
MIN_WEIGHT, MAX_WEIGHT = 0.01, 1000


# Models of the limits that other parts of Atlas define and the engine only stores, by name.
_models: dict[str, TypeAdapter[Any]] = {}


async def add_tenant(conn: Connection, *, slug: str, name: str, timezone: str = "UTC", actor: Actor) -> Tenant:
    """Add a tenant. Its time zone is the clock that its schedules follow."""
    _check(slug, name, timezone)
    async with conn.transaction():
        try:
            row = await prisma_on(conn).tenant.create(
                {"id": str(new_id()), "slug": slug, "name": name, "timezone": timezone}
            )
        except asyncpg.UniqueViolationError as error:
            raise Conflict(f"There is already a tenant {slug}.", remedy="Choose another slug.") from error
        tenant = _tenant(row)
        await record(
            conn,
            Event(
                action="TENANT_ADDED",
                entity_type="tenant",
                entity_id=str(tenant.id),
                actor=actor,
                tenant_id=tenant.id,
                meta={"slug": slug, "name": name, "timezone": timezone},
            ),
        )
    return tenant


async def edit_tenant(
    conn: Connection,
    tenant: Tenant,
    changes: Mapping[str, Any],
    *,
    actor: Actor,
    if_match: Precondition | None = None,
) -> Tenant:
    """Change a tenant's name, time zone, limits or retention; what `changes` does not name stays as it is."""
    values = {name: changes.get(name, getattr(tenant, name)) for name in ("name", "timezone", "limits", "retention")}
    _check(tenant.slug, values["name"], values["timezone"], changes.get("limits"), changes.get("retention"))
    facts = {name: values[name] for name in sorted(changes) if name in values}
    texts = {name: facts[name] for name in ("name", "timezone") if name in facts}
    documents = {name: as_json(facts[name]) for name in ("limits", "retention") if name in facts}
    data = cast("TenantUpdateInput", texts | documents)
    where: TenantWhereUniqueInput = {"id": str(tenant.id)}
    async with conn.transaction():
        tenants = prisma_on(conn).tenant
        await fetch_value(conn, HOLD, id=tenant.id)
        if if_match is not None:
            held = await tenants.find_unique(where)
            require_match(None if held is None else _tenant(held), if_match, "tenant", tenant.slug)
        before = await values_of(conn, "tenant", tenant.id)
        # What `data` does not name stays as it is in the row, which another may have changed since it was read.
        row = await tenants.update(data, where)
        if row is None:
            raise no_tenant(tenant.slug)
        if row.movingAt is not None:
            raise TenantMoved(tenant.slug, row.movingTo or "")
        await record(
            conn,
            Event("TENANT_EDITED", "tenant", str(tenant.id), actor, tenant.id, meta={"slug": tenant.slug}),
            before=before,
        )
    return _tenant(row)


def know_limit(name: str, model: type[BaseModel]) -> None:
    """Check a limit by this model, in this process."""
    _models[name] = TypeAdapter(model)


async def find_tenant(conn: Connection, slug_or_id: str | UUID) -> Tenant:
    """The tenant of this slug or id; `NotFound` where there is none."""
    slug, id = str(slug_or_id), as_id(str(slug_or_id))
    where: TenantWhereUniqueInput = {"slug": slug} if id is None else {"id": str(id)}
    is_usable = id is not None or _SLUG.fullmatch(slug)
    row = await prisma_on(conn).tenant.find_unique(where) if is_usable else None
    if row is None:
        raise no_tenant(slug_or_id)
    return _tenant(row)


async def list_tenants(conn: Connection, *, after: str | None = None, limit: int | None = None) -> list[Tenant]:
    """The tenants by slug; with `limit`, one page of them."""
    where: TenantWhereInput = {} if after is None else {"slug": {"gt": after}}
    return [_tenant(row) for row in await prisma_on(conn).tenant.find_many(limit, where=where, order={"slug": "asc"})]


def _tenant(row: "models.Tenant") -> Tenant:
    return from_row(Tenant, row, retention_days=ages_of(cast("dict[str, Any]", row.retention)))


def _check(
    slug: str,
    name: str,
    timezone: str,
    limits: Mapping[str, Any] | None = None,
    retention: Mapping[str, Any] | None = None,
) -> None:
    errors = [*check_name("name", name), *_check_limits(limits or {}), *_check_retention(retention or {})]
    if not _SLUG.fullmatch(slug):
        reason = "must be 1 to 63 lower-case letters, digits and hyphens, beginning with a letter or a digit"
        errors.append(FieldError("slug", reason))
    elif as_id(slug) is not None:
        # A tenant is found by either; one's slug must not be another's id.
        errors.append(FieldError("slug", "must not look like an id"))
    errors += check_zone("timezone", timezone)
    if errors:
        raise InvalidInput("The tenant", errors)


def _check_limits(limits: Mapping[str, Any]) -> list[FieldError]:
    """The numbers that the claim and the API use, and the limits with a model of their own."""
    errors = [FieldError(f"limits.{name}", "is not a limit that Atlas knows") for name in limits if name not in LIMITS]
    for name in ("in_flight", "requests_per_second"):
        if name in limits and not _is_count(limits[name]):
            errors.append(FieldError(f"limits.{name}", f"must be a whole number from 1 to {MAX_VALUE:,}"))
    if "weight" in limits and not _is_weight(limits["weight"]):
        errors.append(FieldError("limits.weight", f"must be a number from {MIN_WEIGHT} to {MAX_WEIGHT}"))
    errors += check_rate(limits.get("rate"), limits.get("burst"), path="limits.")
    objects = [name for name in ("email", "quotas") if not isinstance(limits.get(name, {}), dict)]
    if objects:
        return [*errors, *(FieldError(f"limits.{name}", "must be an object") for name in objects)]
    for kind, most in limits.get("quotas", {}).items():
        if kind not in QUOTAS:
            errors.append(FieldError(f"limits.quotas.{kind}", f"is not one of {', '.join(QUOTAS)}"))
        elif not _is_count(most):
            errors.append(FieldError(f"limits.quotas.{kind}", f"must be a whole number from 1 to {MAX_VALUE:,}"))
    for name in sorted(_models.keys() & limits.keys()):
        try:
            _models[name].validate_json(orjson.dumps(limits[name]))
        except ValidationError as error:
            errors += [FieldError(f"limits.{name}.{problem.field}", problem.reason) for problem in field_errors(error)]
    return errors


def _check_retention(retention: Mapping[str, Any]) -> list[FieldError]:
    kinds = ", ".join(DEFAULT_DAYS)
    errors = [
        FieldError(f"retention.{name}", f"is not one of {kinds}") for name in retention if name not in DEFAULT_DAYS
    ]
    reason = f"must be a whole number of days from 1 to {MAX_VALUE:,}, or null to keep them for ever"
    return errors + [
        FieldError(f"retention.{name}", reason)
        for name, days in retention.items()
        if name in DEFAULT_DAYS and days is not None and not _is_count(days)
    ]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_VALUE


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and MIN_WEIGHT <= value <= MAX_WEIGHT
