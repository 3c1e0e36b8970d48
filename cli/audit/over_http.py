"""The audit log as the API has it: its newest rows, those that arrive, and what verifying it found."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from atlas.audit.find import AuditRow, Query
from atlas.audit.verifier.format import Finding, Report
from atlas.bounds import LARGEST_PAGE
from atlas.cli.over_http_rows import row_of
from atlas.errors import AtlasError

if TYPE_CHECKING:
    from atlas.client import AtlasClient
    from atlas.client.methods import AsyncPages

FOLLOW_SECONDS = 1.0


async def newest(atlas: "AtlasClient", query: Query, lines: int) -> list[AuditRow]:
    """The newest rows, the last one at the end."""
    found: list[AuditRow] = []
    async for page in _matching(atlas, query).pages(limit=min(max(lines, 1), LARGEST_PAGE)):
        found += [row_of(AuditRow, one) for one in page.items]
        if len(found) >= lines:
            break
    return list(reversed(found[:lines]))


async def follow(atlas: "AtlasClient", query: Query) -> AsyncIterator[AuditRow]:
    """Rows as they arrive."""
    known = {one.id for one in (await _matching(atlas, query).page(limit=LARGEST_PAGE)).items}
    while True:
        await asyncio.sleep(FOLLOW_SECONDS)
        fresh: list[AuditRow] = []
        # A page that has a known row is the last to look at. A row can appear after one of a higher number.
        async for page in _matching(atlas, query).pages():
            fresh += [row_of(AuditRow, one) for one in page.items if one.id not in known]
            if any(one.id in known for one in page.items):
                break
        known |= {row.id for row in fresh}
        for row in reversed(fresh):
            yield row


def _matching(atlas: "AtlasClient", query: Query) -> "AsyncPages[Any]":
    return atlas.list_audit_rows(
        actor_id=query.actor_id,
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
    figures = {one.name for one in fields(Report)} - {"findings", "notices"}
    return Report(
        **{name: value for name, value in ended.report.items() if name in figures},
        findings=[Finding(**one) for one in ended.findings],
        notices=list(ended.notices),
    )
