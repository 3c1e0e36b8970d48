"""Keys that make a second request for the same work find the first."""

import hashlib
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson

LONGEST_KEY = 200


def make_dedupe_key(job_type: str, tenant_id: UUID | str | None, payload: Mapping[str, Any] | None) -> str:
    """`<type>::<tenant|global>::<sorted json>`: the same for any order of keys, at any depth."""
    written = orjson.dumps(payload if payload is not None else {}, option=orjson.OPT_SORT_KEYS, default=str).decode()
    return f"{job_type}::{tenant_id or 'global'}::{written}"


def hash_key(key: str) -> bytes:
    """What the unique index holds."""
    return hashlib.sha256(key.encode()).digest()


def stored_key(key: str) -> str:
    """What the row shows: the key, or its hash when it is long."""
    return key if len(key) <= LONGEST_KEY else hash_key(key).hex()
