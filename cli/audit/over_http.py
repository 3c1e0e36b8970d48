"""The audit log as the API has it: its newest rows, those that arrive, and what verifying it found."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from atlas.audit.find import AuditRow, Query
from atlas.audit.verifier.format import Finding, Report
from atlas.bounds import LARGEST_PAGE
from atlas.cli.connection.over_http_rows import row_of
from atlas.errors import AtlasError

if TYPE_CHECKING:
    from atlas.client import AtlasClient, AuditEntry
    from atlas.client.methods import AsyncPages

FOLLOW_SECONDS = 1.0


async def newest(atlas: "AtlasClient", query: Query, lines: int) -> list[AuditRow]:
    """The newest rows, the last one at the end."""
    rows: list[AuditRow] = []
    async for page in _matching(atlas, query).pages(limit=min(max(lines, 1), LARGEST_PAGE)):
        rows += [_row(entry) for entry in page.items]
        if len(rows) >= lines:
            break
    return list(reversed(rows[:lines]))


async def place(atlas: "AtlasClient") -> str:
    """Where the audit log ends now."""
    return (await atlas.list_new_audit_rows()).place


async def follow(atlas: "AtlasClient", query: Query, place: str) -> AsyncIterator[AuditRow]:
    """Rows as they arrive after a place."""
    while True:
        batch = await atlas.list_new_audit_rows(
            place=place,
            actor_id=query.actor_id,
            actor_type=query.actor_type,
            action=query.actions,
            entity_id=query.entity_id,
            text=query.text,
        )
        for entry in batch.items:
            yield _row(entry)
        place = batch.place
        await asyncio.sleep(FOLLOW_SECONDS)


def _row(entry: "AuditEntry") -> AuditRow:
    # The API orders the rows, and does not say by which transactions.
    return row_of(AuditRow, entry, epoch=0, xid=0)


def _matching(atlas: "AtlasClient", query: Query) -> "AsyncPages[Any]":
    return atlas.list_audit_rows(
        actor_id=query.actor_id,
        actor_type=query.actor_type,
        action=query.actions,
        entity_id=query.entity_id,
        since=query.since,
        text=query.text,
    )


async def verify(atlas: "AtlasClient") -> Report:
    """Verify the whole audit log where it is, and return what was found."""
    ended = await atlas.wait_for_verification(await atlas.start_verification())
    if ended.status in ("failed", "lost"):
        why = " ".join(ended.notices) or "The process that ran it is gone."
        raise AtlasError(f"The verification has not ended: {why}", remedy="Start it again.")
    figures = {field.name for field in fields(Report)} - {"findings", "notices"}
    return Report(
        **{name: value for name, value in ended.report.items() if name in figures},
        findings=[Finding(**finding) for finding in ended.findings],
        notices=list(ended.notices),
    )
