"""Compares the effects of the ledger with the entries of a provider, in a temporary file of SQLite.

Providers list in an order of their own, and both sides may have millions of rows. So neither is held in memory.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from atlas.engine.effects.adapters import ProviderEntry
from atlas.models.effect_reports import EffectDifference

CHUNK = 1000

# Statements of SQLite. An entry is an effect's if they share the key or the reference.
TABLES = """
create table entries (reference text primary key, key text, made_at real not null) without rowid;
create table effects (
  id text primary key, job_id text not null, name text not null, key text not null, state text not null, reference text,
  intended_at real not null, ended_at real, is_older int not null
) without rowid;
create index entries_key on entries (key) where key is not null;
create index effects_key on effects (key);
create index effects_reference on effects (reference) where reference is not null;
"""
ADD_ENTRIES = "insert or ignore into entries values (?, ?, ?)"
ADD_EFFECTS = "insert or ignore into effects values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
SETTLE = "update effects set state = 'done', reference = ? where id = ?"
UNMATCHED = """
select n.reference, n.key from entries n
where n.made_at >= :since and n.reference > :after
  and not exists (select 1 from effects f where f.key = n.key)
  and not exists (select 1 from effects f where f.reference = n.reference)
order by n.reference
"""
BY_KEY = "(select json_group_array(n.reference) from entries n where n.key = f.key)"
OF_EFFECT = f"select f.key, f.id, f.job_id, f.name, f.reference, {BY_KEY} from effects f where "
HAS_KEY = "exists (select 1 from entries n where n.key = f.key)"
HAS_REFERENCE = "exists (select 1 from entries n where n.reference = f.reference)"
DIFFERENCES = {
    "twice": """
        select n.key, min(f.id), min(f.job_id), min(f.name), min(f.reference), n.reference_list from (
          select key, json_group_array(reference) as reference_list from entries
          where key is not null group by key having count(*) > 1 and max(made_at) >= :since) n
        left join effects f on f.key = n.key group by n.key order by n.key""",
    "not_there": f"""{OF_EFFECT} f.state = 'done' and f.intended_at >= :since and f.is_older = 0
        and f.ended_at < :visible_before and not {HAS_KEY} and not {HAS_REFERENCE} order by f.id""",
    "not_here": f"select key, null, null, null, null, json_array(reference) from ({UNMATCHED})",
    "found": f"""{OF_EFFECT} (f.state = 'unknown' or (f.state = 'intended' and f.intended_at < :visible_before))
        and {HAS_KEY} order by f.id""",
    "refused_here": f"{OF_EFFECT} f.state = 'refused' and {HAS_KEY} order by f.id",
    "other_reference": f"""{OF_EFFECT} f.state = 'done' and f.reference is not null
        and {HAS_KEY} and not {HAS_REFERENCE} order by f.id""",
}
IN_DOUBT = f"""select count(*) from effects f where f.is_older = 0 and not {HAS_KEY}
    and (f.state = 'unknown' or (f.state = 'intended' and f.intended_at < :visible_before))"""


class LedgerRow(NamedTuple):
    """An effect of the ledger, as far as it is compared."""

    id: UUID
    job_id: UUID
    name: str
    key: str
    state: str
    reference: str | None
    intended_at: datetime
    ended_at: datetime | None


class Comparison:
    """Both sides of a reconciliation: add entries and effects, then read the differences."""

    def __init__(self, *, since: datetime, visible_before: datetime) -> None:
        self._bounds = {"since": since.timestamp(), "visible_before": visible_before.timestamp(), "after": ""}
        # The empty name is a file that SQLite removes when it is closed. Threads use it one after the other.
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._db.executescript(f"pragma journal_mode = off; pragma cache_size = -8192; {TABLES}")

    def __enter__(self) -> "Comparison":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def add_entries(self, entries: Iterable[ProviderEntry]) -> None:
        """Add what the provider listed; an entry that two pages show counts once."""
        self._add(ADD_ENTRIES, [(entry.reference, entry.key, entry.made_at.timestamp()) for entry in entries])

    def add_effects(self, rows: Iterable[LedgerRow], *, is_older: bool = False) -> None:
        """Add effects of the ledger; older ones explain entries, and are not missed themselves."""
        values = [
            (str(row.id), str(row.job_id), row.name, row.key, row.state, row.reference, *_times(row), int(is_older))
            for row in rows
        ]
        self._add(ADD_EFFECTS, values)

    def unmatched(self) -> Iterator[list[tuple[str, str | None]]]:
        """Reference and key of the entries that no effect explains yet, in chunks; effects may be added in between."""
        bounds = dict(self._bounds)
        while chunk := self._db.execute(f"{UNMATCHED} limit {CHUNK}", bounds).fetchall():
            yield chunk
            bounds["after"] = chunk[-1][0]

    def differences(self, kind: str) -> Iterator[EffectDifference]:
        """The differences of a kind, in the order of their keys or effects."""
        # Its own cursor: another kind may be read in between.
        for row in self._db.cursor().execute(DIFFERENCES[kind], self._bounds):
            yield _difference(kind, row)

    def settle(self, effect_id: UUID, reference: str) -> None:
        """An effect that was unknown is done now, under this reference."""
        self._db.execute(SETTLE, (reference, str(effect_id)))

    def count_entries(self) -> int:
        """How many entries the provider listed."""
        return int(self._db.execute("select count(*) from entries").fetchone()[0])

    def count_effects(self) -> int:
        """How many effects were compared, without the older ones."""
        return int(self._db.execute("select count(*) from effects where is_older = 0").fetchone()[0])

    def count_doubts(self) -> int:
        """How many effects are unknown here, and were not found there."""
        return int(self._db.execute(IN_DOUBT, self._bounds).fetchone()[0])

    def _add(self, query: str, values: Sequence[tuple[Any, ...]]) -> None:
        self._db.execute("begin")
        self._db.executemany(query, values)
        self._db.execute("commit")


def _times(row: LedgerRow) -> tuple[float, float | None]:
    return row.intended_at.timestamp(), None if row.ended_at is None else row.ended_at.timestamp()


def _difference(kind: str, row: Sequence[Any]) -> EffectDifference:
    key, effect_id, job_id, name, reference, provider_references = row
    return EffectDifference(
        kind=kind,
        key=key,
        effect_id=None if effect_id is None else UUID(effect_id),
        job_id=None if job_id is None else UUID(job_id),
        name=name,
        reference=reference,
        provider_references=sorted(orjson.loads(provider_references)),
    )
