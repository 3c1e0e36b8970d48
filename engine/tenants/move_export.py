"""The file that a tenant moves in: a ZIP with a manifest, a file of JSON lines for each table, and its audit log.

The manifest has the number of rows and the SHA-256 of each of them. Secrets are in it as they are stored, encrypted.
The audit log is an export with proofs, which the verifier checks without a database, for each installation that the
tenant has been at.
"""

import asyncio
import hashlib
import os
import zipfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
from pydantic import AwareDatetime, BaseModel

from atlas.audit.exports.export import Extract, read_lines
from atlas.audit.exports.moved import AuditPart, kept_parts, read_parts
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.errors import AtlasError, Conflict
from atlas.models.tenants import Tenant
from atlas.version import __version__

FACTS = statement("engine/tenants/sql/tenant_facts.sql")
TABLES = statement("engine/tenants/sql/tenant_tables.sql")
ROWS = statement("engine/tenants/sql/tenant_rows.sql")
COUNT = statement("audit/sql/count_rows.sql")

FORMAT = "atlas-tenant/1"
MANIFEST = "manifest.json"
# How often the audit log is looked at until all of the tenant's rows are signed.
SIGN_TRIES = 60
ROWS_AT_ONCE = 500

# Called with the table that is written or read, and the rows so far.
Progress = Callable[[str, int], None]


class NotAllSigned(AtlasError):
    """Some of the tenant's audit rows are under no checkpoint yet."""


class MovedTable(BaseModel, frozen=True):
    """The rows of a table."""

    columns: tuple[str, ...]
    rows: int
    sha256: str


class TenantManifest(BaseModel, frozen=True):
    """What a file holds, and where it comes from."""

    format: str
    atlas: str
    migration: str
    cluster: str
    exported_at: AwareDatetime
    tenant_id: UUID
    slug: str
    # The number of the last event there, and what jobs and runs name by ids of there.
    event_cursor: int
    definitions: list[dict[str, Any]]
    workflows: list[dict[str, Any]]
    # Of the keys that its secrets are encrypted with.
    secret_keys: tuple[str, ...]
    tables: dict[str, MovedTable]
    audit: tuple[AuditPart, ...]

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())


@dataclass(frozen=True, slots=True)
class TenantFile:
    """A file that was written, and the SHA-256 of its manifest, which stands for all of it."""

    manifest: TenantManifest
    digest: str
    bytes: int


def rows_name(table: str) -> str:
    """The name of a table's rows in the file."""
    return f"rows/{table}.jsonl"


def audit_name(number: int) -> str:
    """The name of a part of the audit log in the file."""
    return f"audit-log/{number}.jsonl"


class TenantFileWriter:
    """Writes the file of a tenant that is moving. It gets its name when it is complete and on the disk."""

    def __init__(self, conn: Connection, tenant: Tenant, keys: Sequence[str], progress: Progress) -> None:
        self._conn = conn
        self._tenant = tenant
        self._keys = tuple(keys)
        self._progress = progress

    async def write(self, path: Path, seal: Callable[[], Awaitable[Any]]) -> TenantFile:
        """Write it. `seal` seals and signs what is committed, where this machine can: all rows must be signed."""
        draft = path.with_name(f".{path.name}.part")
        try:
            for tries_left in reversed(range(SIGN_TRIES)):
                await seal()
                try:
                    manifest, digest = await self._write(draft)
                    break
                except NotAllSigned:
                    if not tries_left:
                        raise
                    await asyncio.sleep(0.5)
            _sync(draft)
            draft.replace(path)
            _sync(path.parent)
        except OSError as error:
            raise Conflict(
                f"{path} cannot be written: {error.strerror or error}.", remedy="Name another file."
            ) from error
        finally:
            draft.unlink(missing_ok=True)
        return TenantFile(manifest, digest, os.stat(path).st_size)

    async def _write(self, draft: Path) -> tuple[TenantManifest, str]:
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w+b") as opened, zipfile.ZipFile(opened, "w", zipfile.ZIP_DEFLATED) as file:
            # One snapshot of all tables.
            async with self._conn.transaction(isolation="repeatable_read", readonly=True):
                facts = await fetch_row(self._conn, FACTS, tenant_id=self._tenant.id)
                assert facts is not None
                audit = await self._write_audit(file, facts["cluster"])
                tables = {}
                for row in await fetch(self._conn, TABLES):
                    tables[row["name"]] = await self._write_rows(file, row["name"], row["columns"])
            manifest = TenantManifest(
                format=FORMAT,
                atlas=__version__,
                migration=facts["migration"],
                cluster=facts["cluster"],
                exported_at=facts["now"],
                tenant_id=self._tenant.id,
                slug=self._tenant.slug,
                event_cursor=facts["event_cursor"],
                definitions=orjson.loads(facts["definitions"]),
                workflows=orjson.loads(facts["workflows"]),
                secret_keys=tuple(sorted(facts["secret_keys"])),
                tables=tables,
                audit=audit,
            )
            text = manifest.model_dump_json(indent=2).encode()
            file.writestr(MANIFEST, text)
        return manifest, hashlib.sha256(text).hexdigest()

    async def _write_rows(self, file: zipfile.ZipFile, name: str, columns: Sequence[str]) -> MovedTable:
        count, digest = 0, hashlib.sha256()
        values = ROWS.bind({"tenant_id": self._tenant.id, "name": name})
        with file.open(rows_name(name), "w", force_zip64=True) as out:
            async for row in self._conn.cursor(ROWS.sql, *values, prefetch=ROWS_AT_ONCE):
                line = row["line"].encode() + b"\n"
                out.write(line)
                digest.update(line)
                count += 1
                if count % ROWS_AT_ONCE == 0:
                    self._progress(name, count)
        self._progress(name, count)
        return MovedTable(columns=tuple(columns), rows=count, sha256=digest.hexdigest())

    async def _write_audit(self, file: zipfile.ZipFile, cluster: str) -> tuple[AuditPart, ...]:
        """The parts that the tenant brought along, and its rows here."""
        brought = await kept_parts(self._conn, self._tenant.id)
        for part in brought:
            with file.open(audit_name(part.number), "w", force_zip64=True) as out:
                async for number, lines in read_parts(self._conn, self._tenant.id):
                    if number == part.number:
                        out.write(lines)
        number = max((part.number for part in brought), default=0) + 1
        part = AuditPart(number=number, cluster=cluster, rows=0, last_number=0, sha256="", keys=self._keys)
        check, digest, rows = part.check(), hashlib.sha256(), 0
        with file.open(audit_name(number), "w", force_zip64=True) as out:
            async for lines in read_lines(self._conn, Extract(self._tenant.id)):
                out.write(lines)
                digest.update(lines)
                check.feed(lines.splitlines(keepends=True))
                rows = check.number
                self._progress("audit_log", rows)
        report = check.finish()
        if not report.ok:
            raise Conflict(
                f"The audit log of tenant {self._tenant.slug} does not verify: {report.findings[0].message}",
                remedy="Run `atlas audit verify` before it is moved.",
            )
        if report.rows < await fetch_value(self._conn, COUNT, tenant_id=self._tenant.id):
            raise NotAllSigned(
                "Some rows of the tenant's audit log are not signed yet.",
                remedy="A scheduler or `atlas up` must run on the machine that has the key of the audit log.",
            )
        done = {"rows": report.rows, "last_number": check.number, "sha256": digest.hexdigest()}
        return (*brought, part.model_copy(update=done))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
