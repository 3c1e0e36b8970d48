"""History in a backup: a file for each part, which the next backup reuses as long as the part does not change."""

import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from atlas.cli.backup.manifest import HISTORY, Manifest
from atlas.db.pool import Connection, connect
from atlas.db.schema import schema_name
from atlas.db.statements import fetch, statement
from atlas.postgres.dump import dump_tables

PARTS = statement("cli/backup/sql/history_parts.sql")


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """The tables of history for one day and one retention age, as a snapshot has them."""

    name: str
    tables: list[str]
    # The same in two backups: the same rows. None: nothing notes its changes.
    version: str | None

    @property
    def file(self) -> str:
        return f"{HISTORY}/{self.name}.dump"


@dataclass(frozen=True, slots=True)
class HistorySnapshot:
    """What the dumps of one backup read."""

    id: str
    parts: list[HistoryPart]


@dataclass(slots=True)
class PartFiles:
    """The files of parts in the folder of a backup: dumped, or reused from the backup `base`."""

    folder: Path
    base: tuple[Path, Manifest] | None
    # The version in each file, and the SHA-256 of those that were reused.
    versions: dict[str, str | None] = field(default_factory=dict)
    reused: dict[str, str] = field(default_factory=dict)

    def missing(self, parts: list[HistoryPart]) -> Iterator[HistoryPart]:
        """The parts of a snapshot that no file has as they are there."""
        for part in parts:
            if part.version is None or self.versions.get(part.name) != part.version:
                yield part

    async def dump(
        self, part: HistoryPart, url: str, snapshot: HistorySnapshot, advance: Callable[[int], None]
    ) -> None:
        """Write the file of a part as it is in a snapshot."""
        file = self._emptied(part)
        await dump_tables(url, schema_name(), part.tables, file, advance, snapshot=snapshot.id)
        self.versions[part.name] = part.version

    def reuse(self, part: HistoryPart) -> bool:
        """Take the file of the base; returns False where the base has none of this version."""
        if self.base is None or part.version is None or self.base[1].history.get(part.name) != part.version:
            return False
        source, sha256 = self.base[0] / part.file, self.base[1].files.get(part.file)
        if sha256 is None or not source.is_file():
            return False
        target = self._emptied(part)
        try:
            os.link(source, target)
        except OSError:  # another disk, or one without links
            shutil.copy(source, target)
        self.reused[part.file] = sha256
        self.versions[part.name] = part.version
        return True

    def forget_all_but(self, parts: list[HistoryPart]) -> None:
        """Remove the files of parts that were dropped meanwhile."""
        for name in self.versions.keys() - {part.name for part in parts}:
            del self.versions[name]
            self.reused.pop(f"{HISTORY}/{name}.dump", None)
            (self.folder / HISTORY / f"{name}.dump").unlink()

    def _emptied(self, part: HistoryPart) -> Path:
        """Where the file of a part belongs. One that is there may be linked, and belong to the base as well."""
        file = self.folder / part.file
        file.parent.mkdir(exist_ok=True, mode=0o700)
        file.unlink(missing_ok=True)
        self.reused.pop(part.file, None)
        return file


@asynccontextmanager
async def open_snapshot(url: str, *, part: str | None = None) -> AsyncIterator[HistorySnapshot]:
    """A snapshot for dumps, whose tables of history, or those of one part, are not dropped meanwhile."""
    conn = await connect(url, application="atlas backup")
    try:
        while True:
            tables = [table for history_part in await list_parts(conn, part) for table in history_part.tables]
            transaction = conn.transaction(isolation="repeatable_read", readonly=True)
            await transaction.start()
            try:
                await _lock(conn, tables)
                break
            except asyncpg.UndefinedTableError:  # dropped just now
                await transaction.rollback()
        parts = await list_parts(conn, part)
        yield HistorySnapshot(await conn.fetchval("select pg_export_snapshot()"), parts)
    finally:
        await conn.close()


async def list_parts(conn: Connection, name: str | None = None) -> list[HistoryPart]:
    """The parts of history, by name, or the one of a name."""
    return [HistoryPart(**row) for row in await fetch(conn, PARTS, schema=schema_name(), part=name)]


async def dump_history(url: str, files: PartFiles, advance: Callable[[int], None]) -> None:
    """Dump the parts that cannot be reused, each in a snapshot of its own: none holds the xmin horizon for long."""
    conn = await connect(url, application="atlas backup")
    try:
        parts = await list_parts(conn)
    finally:
        await conn.close()
    for listed in parts:
        if not files.reuse(listed):
            async with open_snapshot(url, part=listed.name) as snapshot:
                for part in snapshot.parts:
                    await files.dump(part, url, snapshot, advance)


async def _lock(conn: Connection, tables: list[str]) -> None:
    """Before the first statement, which takes the snapshot."""
    await conn.execute("set local idle_in_transaction_session_timeout = 0")
    if tables:
        names = ", ".join(f'only {schema_name()}."{table}"' for table in tables)
        await conn.execute(f"lock table {names} in access share mode")
