"""What the API returns, as the rows that commands show, and what people name found in its lists."""

from collections.abc import AsyncIterable, Callable, Coroutine
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from pydantic import BaseModel

from atlas.cli.access.tenant_names import TenantNames
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.ids import entity_of, id_range, is_beginning, only_one
from atlas.engine.id_prefixes import IdKind
from atlas.errors import NotFound, Refused
from atlas.ids import as_id

if TYPE_CHECKING:
    from atlas.client import AtlasClient, Page, Tenant
    from atlas.client.methods import AsyncPages

R = TypeVar("R")


def row_of(kind: type[R], source: Any, **more: Any) -> R:
    """A row of this kind, from a response that has fields of the same names. `more` are those that it does not have."""
    if issubclass(kind, BaseModel):
        # Also of a larger model, such as one with a secret.
        return kind.model_validate(
            {name: getattr(source, name) for name in kind.model_fields if name not in more} | more
        )
    row: Any = kind
    return kind(**{field.name: getattr(source, field.name) for field in fields(row) if field.name not in more}, **more)


async def tenant_names(atlas: "AtlasClient") -> TenantNames:
    """The slugs of the tenants that the token may read."""
    slugs: dict[str, str] = {}
    # Of the role enqueuer, for example.
    with suppress(Refused):
        slugs = {str(tenant.id): tenant.slug async for tenant in atlas.list_tenants()}
    return TenantNames(slugs)


def with_names(
    work: "Callable[[AtlasClient], Coroutine[Any, Any, R]]", *, tenant: str | None = None
) -> tuple[R, TenantNames]:
    """Run a command as `on_atlas` does, and read the slugs of the tenants beside it."""

    async def work_and_names(atlas: "AtlasClient") -> tuple[R, TenantNames]:
        return await work(atlas), await tenant_names(atlas)

    return on_atlas(work_and_names, tenant=tenant)


async def all_of(listing: AsyncIterable[R]) -> list[R]:
    """Every item of a list."""
    return [item async for item in listing]


async def find_row(atlas: "AtlasClient", kind: IdKind, text: str, get: Callable[[UUID], Coroutine[Any, Any, R]]) -> R:
    """What `get` returns for the id that a person typed, whole or its beginning."""
    return await get(await resolve_id(atlas, kind, text))


async def read_page(
    atlas: "AtlasClient", kind: IdKind, listing: "AsyncPages[R]", *, before: str | None, limit: int
) -> "Page[R]":
    """A page of a list: its beginning, or what follows the id that was given with --before."""
    cursor = None if before is None else str(await resolve_id(atlas, kind, before, option="--before"))
    return await listing.page(limit=limit, cursor=cursor)


async def remove_row(
    atlas: "AtlasClient",
    kind: IdKind,
    text: str,
    get: Callable[[UUID], Coroutine[Any, Any, R]],
    remove: Callable[[UUID], Coroutine[Any, Any, None]],
) -> R:
    """Remove what a person named by its id, and return what it was."""
    row: Any = await find_row(atlas, kind, text, get)
    await remove(row.id)
    removed: R = row
    return removed


async def own_tenant(atlas: "AtlasClient", named: str | None) -> "Tenant":
    """The tenant that was named, or that of the token, or system."""
    return await atlas.get_tenant(named or (await atlas.get_session()).tenant or "system")


async def resolve_id(atlas: "AtlasClient", kind: IdKind, text: str, *, option: str = "ID") -> UUID:
    """The id that a person typed: whole, whether it exists or not, or the only one that begins so."""
    whole = as_id(text)
    if whole is not None:
        return whole
    id_range(option, text)
    return only_one(kind, text, (await atlas.find_ids(kind, text)).ids)


async def resolve_entity(atlas: "AtlasClient", text: str) -> str:
    """What the audit log calls what a person typed."""
    return entity_of(text, (await atlas.find_ids("any", text)).ids) if is_beginning(text) else text


async def find_named(kind: str, text: str, listing: AsyncIterable[R], *, name: str | None = "name") -> R:
    """What a list has under a name, if its rows have names, under an id, or under the only id that begins so."""
    rows: dict[UUID, Any] = {}
    async for row in listing:
        item: Any = row
        if name is not None and getattr(item, name) == text:
            return row
        rows[item.id] = row
    ids = [id for id in rows if str(id) == text.lower()]
    if not ids and is_beginning(text):
        low, high = id_range("ID", text)
        ids = sorted(id for id in rows if low <= id <= high)
    if not ids:
        raise NotFound(kind, text)
    match: R = rows[only_one(kind, text, ids)]
    return match
