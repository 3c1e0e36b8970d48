"""The values before and after an edit, for its event.

A verb reads `values_of` an entity before it changes the entity, and passes them to `record`. The event then holds
`changes`: for each field that differs, its value before and after. Of secrets, an event only says that they changed.
Fields in which people write anything are personal values: the event commits to them, and they can be erased.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import orjson

from atlas.audit.personal_data import PrivateRow, commit
from atlas.audit.state import has_state
from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement

VALUES = statement("audit/sql/entity_values.sql")

# A longer value is recorded by its digest and its length. Personal values are indexed, which bounds them further.
MAX_VALUE = 4_000
MAX_PERSONAL = 2_000
# With more fields than this, their columns are compared as a whole.
MAX_CHANGES = 100
# Never shown. A field is a column, or a path into a column of JSON.
SECRET = {
    "token": ("hash",),
    "session": ("hash",),
    "webhook": ("ciphertext",),
    "inbound_hook": ("ciphertext", "key"),
    "definition": ("env",),
}
# They change with a secret, and say nothing.
LEFT_OUT = ("nonce", "key_id")
PERSONAL = {"trigger": ("payload_template",), "tenant": ("limits.email",), "group": ("then_job",)}
URLS = {"webhook": ("url",), "tenant": ("moving_to",)}

Values = Mapping[str, Any]


async def values_of(conn: Connection, kind: str, id: object, tenant_id: UUID | None = None) -> Values:
    """The columns of an entity as JSON, without mere traces of use; empty where it does not exist."""
    if not has_state(kind, str(id)):
        return {}
    values: str | None = await fetch_value(conn, VALUES, kind=kind, id=str(id), tenant_id=tenant_id)
    return (
        {} if values is None else {name: value for name, value in orjson.loads(values).items() if name not in LEFT_OUT}
    )


def changes_between(
    kind: str, before: Values, after: Values, *, entity_id: str
) -> tuple[dict[str, Any], list[PrivateRow]]:
    """The fields that differ, each with its values before and after, and the personal values that are kept apart.

    Only columns that `before` names are compared.
    """
    compared = {name: after.get(name) for name in before}
    differing = list(_differing(kind, before, compared))
    if len(differing) > MAX_CHANGES:
        columns = sorted({path.split(".")[0] for path, *_ in differing})
        differing = [(name, before[name], compared[name]) for name in columns]
    changes: dict[str, Any] = {}
    kept: list[PrivateRow] = []
    for path, *values in differing:
        if _is_in(path, SECRET.get(kind, ())):
            changes[path] = {"secret": True}
        elif _is_in(path, PERSONAL.get(kind, ())):
            changes[path] = {}
            for name, value in zip(("before", "after"), values, strict=True):
                changes[path][name], row = _committed(name, value, entity_id)
                kept += [row] if row is not None else []
        else:
            texts = [_bounded(bare_url(value) if _is_in(path, URLS.get(kind, ())) else value) for value in values]
            changes[path] = {"secret": True} if texts[0] == texts[1] else {"before": texts[0], "after": texts[1]}
    return changes, kept


def bare_url(url: Any) -> Any:
    """A URL without user, password, query and fragment: they often hold credentials. What is no URL stays as it is."""
    if not isinstance(url, str) or "://" not in url:
        return url
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return ""


def _differing(kind: str, before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The paths at which two values differ, with both of them; null where one lacks the path.

    Objects are compared member by member. Lists are too where they hold personal values: each is erased by itself.
    """
    if before == after and type(before) is type(after):
        return
    is_personal = _is_in(path, PERSONAL.get(kind, ()))
    old, new = _members(before, is_personal), _members(after, is_personal)
    if (old is None and new is None) or (not is_personal and (old is None or new is None)):
        yield path, before, after
        return
    for name in sorted((old or {}).keys() | (new or {}).keys()):
        inner = f"{path}.{name}" if path else name
        yield from _differing(kind, (old or {}).get(name), (new or {}).get(name), inner)


def _members(value: Any, is_personal: bool) -> dict[str, Any] | None:
    if isinstance(value, list) and is_personal:
        return {str(number): member for number, member in enumerate(value)}
    return value if isinstance(value, dict) else None


def _is_in(path: str, fields: tuple[str, ...]) -> bool:
    return any(path == field or path.startswith(f"{field}.") for field in fields)


def _bounded(value: Any, most: int = MAX_VALUE) -> Any:
    text = orjson.dumps(value)
    return value if len(text) <= most else {"sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text)}


def _committed(name: str, value: Any, entity_id: str) -> tuple[Any, PrivateRow | None]:
    """A commitment to a value that someone wrote; numbers, truth values and null are no one's."""
    if isinstance(value, dict | list):
        return _bounded(value, 0), None
    bounded = _bounded(value, MAX_PERSONAL)
    if not isinstance(value, str) or not value or bounded is not value:
        return bounded, None
    return commit(name, value, entity_id=entity_id)
