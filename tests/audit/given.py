"""Accounts for tests: events of several tenants, sealed and signed."""

import json
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from atlas.actors import Actor
from atlas.audit.keys import SigningKey, install_next, next_key, signing_key
from atlas.audit.record import Event, record
from atlas.audit.sealing.checkpoint import publish
from atlas.audit.sealing.seal import seal, seal_batch
from atlas.audit.verifier.copies import copied_notes
from atlas.audit.verifier.format import Report
from atlas.audit.verifier.signed_notes import VerifierKey, split_notes
from atlas.settings import Settings, load_settings

CALLER = Actor("user", "dana", request_id="r-1")
TENANTS = [UUID(f"00000000-0000-7000-8000-0000000000{number:02}") for number in range(1, 5)]

# Rows by the thousand, as the workers' statements write them.
MANY = """
insert into atlas.audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, message, meta, body)
select t, 'system', 'w', 'JOB_SUCCEEDED', 'job', e, $2, '{"attempt": 1}',
  atlas.audit_body(t, 'system', 'w', 'info', 'JOB_SUCCEEDED', 'job', e, $2, '{"attempt": 1}')
from (select ('00000000-0000-7000-8000-00000000000' || 1 + i % 4)::uuid as t, i::text as e
      from generate_series(1, $1) i) x"""


class Installation:
    """What an installation keeps outside its database: the key, its state, the copies of checkpoints."""

    def __init__(self, home: Path, database_url: str | None = None) -> None:
        self.settings: Settings = load_settings(atlas_home=home, database_url=database_url)
        self.key: SigningKey = signing_key(self.settings)
        self.copies = home / "checkpoints"

    @property
    def keys(self) -> list[VerifierKey]:
        return [VerifierKey.parse(self.key.public)]

    @property
    def notes(self) -> list[str]:
        return [note for file in copied_notes(self.copies) for note in split_notes(file.read_text())]

    async def sign(self, conn: Any) -> None:
        await publish(conn, self.key, self.copies)


async def prune_through(owner: Any, installation: Installation, through: int) -> None:
    """Remove the rows of the seals up to one, whatever their age."""
    row = await owner.fetchrow("select size, root from atlas.audit_seal where n = $1", through)
    order = installation.key.order_prune(through, row["size"], row["root"])
    facts = json.dumps({"order": order})
    await owner.execute("select atlas.audit_prune($1, 'user', 'dana', $2::text::jsonb)", through, facts)


def event(number: int, *, tenant_id: UUID | None = None, action: str = "THING_CHANGED", **more: Any) -> Event:
    return Event(action, "thing", str(number), CALLER, tenant_id, f"change {number}", meta={"n": number, **more})


async def write(conn: Any, count: int, *, random: Random | None = None) -> None:
    """Events of several tenants, some of none, in one transaction."""
    chosen = random or Random(count)
    async with conn.transaction():
        for _ in range(count):
            await record(conn, event(chosen.getrandbits(40), tenant_id=chosen.choice([*TENANTS, None])))


async def write_many(conn: Any, count: int, *, message: str = "") -> None:
    await conn.execute(MANY, count, message)


async def seal_in_small_batches(conn: Any, limit: int) -> None:
    """As `seal` does, with so few rows a batch that windows have several."""
    while sealed := await seal_batch(conn, limit=limit):
        if sealed.closes:
            return


async def audit_log(conn: Any, installation: Installation, *, seals: int = 6, seed: int = 1) -> None:
    """An audit log of some seals, some windows of which have several batches, signed after each."""
    random = Random(seed)
    for _ in range(seals):
        await write(conn, random.randint(1, 9), random=random)
        await (seal_in_small_batches(conn, 4) if random.random() < 0.4 else seal(conn))
        await installation.sign(conn)


def kinds(report: Report) -> set[str]:
    """The kinds of what was found, but for a signature that is late because the test machine is slow."""
    return {finding.kind for finding in report.findings} - {"stale"}


def replaced_key(settings: Settings) -> SigningKey:
    """A new key in the place of the installation's."""
    key = next_key(settings)
    install_next(settings, key)
    return key


async def guard_again(owner: Any) -> None:
    """Enable the triggers again that a test has disabled to do what a superuser can do."""
    for row in await owner.fetch(
        "select tgrelid::regclass::text as table, tgname from pg_trigger where tgname ~ '^audit_' and tgenabled = 'D'"
    ):
        always = "always " if row["tgname"].endswith(("_append_only", "_no_truncate", "_no_update")) else ""
        await owner.execute(f"alter table {row['table']} enable {always}trigger {row['tgname']}")


async def roll_back(owner, *, below: int) -> None:
    """Remove the end of the audit log, as a failover does: back to the last seal of fewer leaves."""
    for table in ("audit_seal", "audit_seal_tenant", "audit_log", "audit_checkpoint"):
        await owner.execute(f"alter table atlas.{table} disable trigger all")
    last = await owner.fetchval("select max(n) from atlas.audit_seal where closes and size < $1", below)
    at = await owner.fetchrow("select size, snap_cur::text as snap from atlas.audit_seal where n = $1", last)
    await owner.execute(
        "delete from atlas.audit_log where not pg_visible_in_snapshot(xid, $1::text::pg_snapshot)", at["snap"]
    )
    for table, column, value in (
        ("audit_seal", "n", last), ("audit_seal_tenant", "n", last), ("audit_checkpoint", "size", at["size"]),
    ):  # fmt: skip
        await owner.execute(f"delete from atlas.{table} where {column} > {value}")
