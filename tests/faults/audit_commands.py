"""Commands on the audit log under faults: they verify, write files, and change what may be changed."""

import asyncio
import sys
import time
from typing import Any

import orjson

from atlas.audit.keys import signing_key
from atlas.audit.record import Event, record
from atlas.audit.sealing.seal import seal
from atlas.audit.sealing.sealer import seal_first
from atlas.cli.main import main as atlas
from atlas.db.pool import open_pool
from atlas.settings import load_settings
from tests.faults import steps
from tests.faults.commands import command, exists, give_little, once
from tests.faults.judge import Evidence
from tests.faults.program import Program
from tests.support import DANA

PERSON = "ann@example.org"
EXPORT = "audit.jsonl"
# Between the seal that `prune` takes and the next one: within this, it begins on a busy machine too.
REST_SECONDS = 10
AGE = "AGE"
FORWARDED = "forwarded.jsonl"
SENT = "select coalesce(max((value->>'sent')::int), 0) from atlas.system_state where key like 'audit_forward:%'"


async def give_personal(conn: Any) -> None:
    """An event with a value of a person."""
    await give_little(conn)
    await record(conn, Event("THING_CHANGED", "thing", "1", DANA, None, "changed"), personal={"to": PERSON})


async def give_sealed(conn: Any) -> None:
    """Events that are sealed."""
    await give_little(conn)
    await seal(conn)


async def each_row_is_forwarded(evidence: Evidence) -> list[str]:
    """Every row that counts as sent is in the file, whole. One that was sent again counts once."""
    lines = (evidence.home.parent / FORWARDED).read_text().splitlines()
    rows, sent = {orjson.loads(line)["id"] for line in lines}, await evidence.conn.fetchval(SENT)
    return [] if len(rows) == sent else [f"{len(rows)} rows are in the file, and {sent} count as sent"]


def main() -> None:
    """Run `prune` after the commands that it needs: rows are sealed, exported and archived before."""
    # An export does not replace a file.
    file, order = f"{time.time_ns()}.jsonl", sys.argv[2:]
    sys.argv[1:] = ["seal"]
    steps.main()
    sealed_at = time.monotonic()
    time.sleep(REST_SECONDS)
    for words in (["export", "--out", file], ["archive", file], order):
        # What the commands before it sealed is younger, and in no archive.
        age = f"{int(time.monotonic() - sealed_at)}s"
        sys.argv[1:] = ["audit", *(age if word == AGE else word for word in words)]
        try:
            atlas()
        except SystemExit as end:
            if end.code:
                raise


def begin_epoch() -> None:
    """Begin an epoch where a scheduler runs, which seals what is committed."""
    asyncio.run(_seal_first())
    atlas()


async def _seal_first() -> None:
    settings = load_settings()
    assert settings.database_url is not None
    pool = await open_pool(settings.database_url, size=2)
    try:
        signing_key(settings)
        await seal_first(pool, settings)
    finally:
        await pool.close()


def recorded(action: str) -> str:
    return exists("audit_log", f"action = '{action}'")


AUDIT_COMMANDS = (
    command("audit-verify", "audit verify", give_little, recorded("AUDIT_VERIFIED")),
    command("audit-export", f"audit export --out {EXPORT}", give_sealed, recorded("AUDIT_EXPORTED"), file=EXPORT),
    command(
        "audit-erase",
        f"audit erase --subject {PERSON}",
        give_personal,
        "select count(*) = 0 from atlas.audit_private",
    ),
    command(
        "audit-forward",
        f"audit forward {FORWARDED}",
        give_sealed,
        f"select ({SENT}) >= (select sum(count - 1) from atlas.audit_seal)",
        laws=(each_row_is_forwarded,),
    ),
    Program(
        "audit-prune",
        ("audit", "prune", "--older-than", AGE),
        give_little,
        recorded("AUDIT_PRUNED"),
        (once("AUDIT_PRUNED"),),
        main="tests.faults.audit_commands:main",
        settings={"ATLAS_AUDIT_MIN_AGE_DAYS": "0"},
    ),
    Program(
        "audit-epoch",
        ("audit", "new-epoch", "--reason", "moved", "--new-key"),
        give_little,
        # The new key signs it.
        "select max(epoch) > min(epoch) and max(epoch) in (select epoch from atlas.audit_checkpoint) from atlas.audit_epoch",
        main="tests.faults.audit_commands:begin_epoch",
    ),
)
