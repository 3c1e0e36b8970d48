"""Tokens: the credentials of people and programs, `atl_<prefix>_<secret>`, shown once and kept as a hash.

The prefix finds the row and may be shown; the secret is 256 random bits, so one SHA-256 is enough: there is no
dictionary to try. A token that an installation chose itself (ATLAS_OPERATOR_TOKEN) has no prefix of its own and is
found by the beginning of its hash.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, get_args
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.prisma import page_filter, prisma_on
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.access.quotas import require_room
from atlas.engine.access.subjects import check_subject, looks_like
from atlas.engine.validation import check_name
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound, Refused, SettingsError
from atlas.ids import as_id, new_id
from atlas.models.rows import from_row, from_rows
from atlas.models.tenants import Role, Tenant, Token

if TYPE_CHECKING:
    from atlas.generated.types import ApiTokenWhereInput, ApiTokenWhereUniqueInput

ROLES: tuple[Role, ...] = get_args(Role)

ADD = statement("engine/access/sql/add_token.sql")
CREDENTIAL = statement("engine/access/sql/find_credential.sql")
REVOKE = statement("engine/access/sql/revoke_token.sql")
REVOKE_CREATED = statement("engine/access/sql/revoke_created_tokens.sql")
CREATED = statement("engine/access/sql/created_tokens.sql")
HOLD_CREATOR = statement("engine/access/sql/hold_creator.sql")
HOLD_SESSION = statement("engine/access/sql/hold_session.sql")
TOUCH = statement("engine/access/sql/touch_token.sql")

# What a role may be narrowed to.
SCOPES: dict[str, tuple[str, ...]] = {"host": ("host_id",), "worker": ("job_types",)}
MAX_JOB_TYPES = 200
MIN_CHOSEN_LENGTH = 16
_MADE_HERE = re.compile(r"atl_([a-z2-7]{8})_[A-Za-z0-9_-]{43}")
_PREFIX = re.compile(r"[a-z2-7]{8}")
_NO_HASH = bytes(32)


async def add_token(
    conn: Connection,
    *,
    subject: str,
    role: str,
    tenant: Tenant | None = None,
    scopes: Mapping[str, Any] | None = None,
    expires_at: datetime | None = None,
    actor: Actor,
) -> tuple[Token, str]:
    """Create a token; returns it with its clear text, which is not shown again."""
    _check(subject, role, tenant, expires_at, scopes or {})
    clear = f"atl_{_new_prefix()}_{secrets.token_urlsafe(32)}"
    draft = _Draft(subject, role, tenant.id if tenant else None, expires_at, scopes or {})
    token = await _add(conn, clear, draft, actor)
    if token is None:
        raise InvalidInput("The token", [FieldError("expires_at", "must be in the future")])
    return token, clear


async def ensure_operator_token(conn: Connection, clear: str, *, actor: Actor) -> Token:
    """Create the token that an installation chose for its first operator, or find it if it exists."""
    if len(clear) < MIN_CHOSEN_LENGTH:
        raise SettingsError(
            f"ATLAS_OPERATOR_TOKEN cannot be used: it is shorter than {MIN_CHOSEN_LENGTH} characters.",
            remedy="Choose a longer one, or unset it and let Atlas make one.",
        )
    token = await authenticate(conn, clear)
    # Another process may create it at the same time; then it is found afterwards.
    token = token or await _add(conn, clear, _Draft("operator", "operator"), actor) or await authenticate(conn, clear)
    if token is None or token.role != "operator":
        raise Conflict(
            "ATLAS_OPERATOR_TOKEN is a token that was revoked, has expired or is not an operator's.",
            remedy="Choose another one, or unset it.",
        )
    return token


async def authenticate(conn: Connection, clear: str) -> Token | None:
    """The token of a clear text, if it is valid now by the database's clock."""
    token = await valid_token(conn, clear)
    return None if token is None else token[0]


async def valid_token(conn: Connection, clear: str) -> tuple[Token, float] | None:
    """The same, with the seconds until it expires."""
    row = await fetch_row(conn, CREDENTIAL, prefix=_prefix_of(clear))
    # Compared in any case, so that the time taken does not reveal which prefixes exist.
    matches = hmac.compare_digest(_hash(clear), _NO_HASH if row is None else row["hash"])
    if row is None or not matches or not row["is_good"]:
        return None
    await fetch(conn, TOUCH, id=row["id"])
    return from_row(Token, row), row["seconds_left"]


async def require_own_name(conn: Connection, subject: str) -> None:
    """Refuse a name for a tenant's token that reads like one of those who act for all tenants.

    The caller sees the tokens of all tenants.
    """
    by: list[Literal["subject"]] = ["subject"]
    operators = await prisma_on(conn).apitoken.group_by(by, where={"tenantId": None})
    if looks_like(subject, [operator["subject"] for operator in operators]):
        raise Conflict(
            f"{subject!r} reads like the name of someone who acts for all tenants.", remedy="Choose another."
        )


async def find_token(conn: Connection, token_id: UUID, *, tenant_id: UUID | None = None) -> Token:
    """The token of this id; raises NotFound if there is none, or if it is not that tenant's."""
    token = await _find(conn, str(token_id))
    if tenant_id not in (None, token.tenant_id):
        raise _unknown(token_id)
    return token


async def list_tokens(
    conn: Connection, *, tenant_id: UUID | None = None, after: UUID | None = None, limit: int | None = None
) -> list[Token]:
    """The tokens of one tenant, or all, oldest first, including expired and revoked tokens; with `limit`, one page."""
    where: ApiTokenWhereInput = page_filter(tenant_id=tenant_id, after=after)
    return from_rows(Token, await prisma_on(conn).apitoken.find_many(limit, where=where, order={"id": "asc"}))


async def revoke_token(conn: Connection, prefix_or_id: str, *, actor: Actor) -> Token:
    """Revoke a token. A second call does nothing and keeps the time of the first."""
    token = await _find(conn, prefix_or_id)
    async with conn.transaction():
        row = await fetch_row(conn, REVOKE, id=token.id)
        if row is None:
            return await _find(conn, prefix_or_id)
        token = from_row(Token, row)
        await record(conn, _event("TOKEN_REVOKED", token, actor), before={"revoked_at": None})
    return token


async def revoke_created_tokens(conn: Connection, token: Token, *, actor: Actor) -> list[Token]:
    """Revoke the tokens that were created with this one, those that were created with them, and so on."""
    revoked: list[Token] = []
    async with conn.transaction():
        creators = [token.id]
        while creators:
            tokens = from_rows(Token, await fetch(conn, REVOKE_CREATED, creators=creators))
            for created in tokens:
                await record(conn, _event("TOKEN_REVOKED", created, actor), before={"revoked_at": None})
            revoked += tokens
            # Also below those that were revoked before.
            creators = [row["id"] for row in await fetch(conn, CREATED, creators=creators)]
    return revoked


async def require_valid_creator(conn: Connection, actor: Actor) -> None:
    """Refuse to create a credential with a token or a session that is no longer valid, whatever a cache says.

    Both are held until the transaction ends: they cannot be ended between this check and the commit.
    """
    if actor.session is not None and not await fetch_value(conn, HOLD_SESSION, id=actor.session):
        raise Refused("The session was ended or has expired.", remedy="Sign in again.")
    if actor.token is not None and await fetch_value(conn, HOLD_CREATOR, prefix=actor.token) is None:
        raise Refused(f"The token {actor.token} was revoked or has expired.", remedy="Use a token that is valid now.")


@dataclass(frozen=True, slots=True)
class _Draft:
    """The values of a token before it is stored."""

    subject: str
    role: str
    tenant_id: UUID | None = None
    expires_at: datetime | None = None
    scopes: Mapping[str, Any] = field(default_factory=dict)


async def _add(conn: Connection, clear: str, draft: _Draft, actor: Actor) -> Token | None:
    async with conn.transaction():
        await require_valid_creator(conn, actor)
        if draft.tenant_id is not None:
            await require_room(conn, "tokens", draft.tenant_id)
        row = await fetch_row(
            conn,
            ADD,
            id=new_id(),
            prefix=_prefix_of(clear),
            hash=_hash(clear),
            subject=draft.subject,
            role=draft.role,
            tenant_id=draft.tenant_id,
            scopes=orjson.dumps(draft.scopes).decode(),
            expires_at=draft.expires_at,
            maker=actor.token,
            created_by=actor.id,
        )
        if row is None:
            return None
        token = from_row(Token, row)
        await record(conn, _event("TOKEN_ADDED", token, actor))
        return token


async def _find(conn: Connection, prefix_or_id: str) -> Token:
    id = as_id(prefix_or_id)
    where: ApiTokenWhereUniqueInput = {"prefix": prefix_or_id} if id is None else {"id": str(id)}
    is_usable = id is not None or _PREFIX.fullmatch(prefix_or_id)
    row = await prisma_on(conn).apitoken.find_unique(where) if is_usable else None
    if row is None:
        raise _unknown(prefix_or_id)
    return from_row(Token, row)


def _check(
    subject: str, role: str, tenant: Tenant | None, expires_at: datetime | None, scopes: Mapping[str, Any]
) -> None:
    errors = check_name("subject", subject) or (check_subject(subject) if tenant is not None else [])
    errors += _check_scopes(role, scopes)
    if role not in ROLES:
        errors.append(FieldError("role", f"{role!r} is not one of {', '.join(ROLES)}"))
    elif role == "operator" and tenant is not None:
        errors.append(FieldError("tenant", "an operator acts for all tenants and belongs to none"))
    elif role not in ("operator", "auditor") and tenant is None:
        errors.append(FieldError("tenant", f"the role {role} needs one"))
    elif role == "host" and "host_id" not in scopes:
        errors.append(FieldError("scopes.host_id", "the role host needs the id of its host"))
    if expires_at is not None and expires_at.tzinfo is None:
        errors.append(FieldError("expires_at", "must name its time zone"))
    if errors:
        raise InvalidInput("The token", errors)


def _check_scopes(role: str, scopes: Mapping[str, Any]) -> list[FieldError]:
    errors = [
        FieldError(f"scopes.{name}", f"does not apply to the role {role}")
        for name in scopes
        if name not in SCOPES.get(role, ())
    ]
    if "host_id" in scopes and as_id(str(scopes["host_id"])) is None:
        errors.append(FieldError("scopes.host_id", "is not a host's id"))
    if "job_types" in scopes:
        types = scopes["job_types"]
        if not isinstance(types, list) or not 0 < len(types) <= MAX_JOB_TYPES:
            errors.append(FieldError("scopes.job_types", f"must be a list of 1 to {MAX_JOB_TYPES} job types"))
        elif not all(isinstance(job_type, str) and job_type and "\0" not in job_type for job_type in types):
            errors.append(FieldError("scopes.job_types", "must name job types"))
    return errors


def _new_prefix() -> str:
    return base64.b32encode(secrets.token_bytes(5)).decode().lower()


def _prefix_of(clear: str) -> str:
    made_here = _MADE_HERE.fullmatch(clear)
    return made_here[1] if made_here else base64.b32encode(_hash(clear)[:5]).decode().lower()


def _hash(clear: str) -> bytes:
    return hashlib.sha256(clear.encode("utf-8", "surrogatepass")).digest()


def _unknown(prefix_or_id: str | UUID) -> NotFound:
    return NotFound("token", prefix_or_id, remedy="`atlas token list` lists the tokens.")


def _event(action: str, token: Token, actor: Actor) -> Event:
    return Event(
        action=action,
        entity_type="token",
        entity_id=str(token.id),
        actor=actor,
        tenant_id=token.tenant_id,
        meta={
            "prefix": token.prefix,
            "subject": token.subject,
            "role": token.role,
            "scopes": token.scopes,
            "expires_at": None if token.expires_at is None else token.expires_at.isoformat(),
        },
    )
