"""Imports a tenant from the file that it moves in, in one transaction: all of it is here when that commits, or nothing.

Before anything is written, the whole file is read: its digests, and its audit log with the signatures. The tenant
arrives paused. Its audit log from elsewhere is kept beside this one, and TENANT_IMPORTED has its digest.
"""

import hashlib
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import orjson
from pydantic import ValidationError

from atlas.actors import Actor
from atlas.audit.exports.moved import AuditPart, keep_piece, last_part, part_problems
from atlas.audit.record import Event, record
from atlas.audit.verifier.signed_notes import BadNote, VerifierKey
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.jobs.lists.counts import count_jobs
from atlas.engine.jobs.switches.pauses import pause
from atlas.engine.tenants.move_export import (
    FORMAT,
    MANIFEST,
    TABLES,
    Progress,
    TenantFile,
    TenantManifest,
    audit_name,
    rows_name,
)
from atlas.engine.tenants.tenants import find_tenant
from atlas.errors import AtlasError, Conflict
from atlas.models.tenants import Tenant

FACTS = statement("engine/tenants/sql/import_facts.sql")
IMPORT = statement("engine/tenants/sql/import_rows.sql")
SETTLE = statement("engine/tenants/sql/settle_import.sql")

# Of one statement, which ends with the row that passes either.
ROWS_AT_ONCE, BYTES_AT_ONCE = 1000, 4 * 2**20


class UnusableFile(AtlasError):
    """The file is not one that a tenant moves in, or not as it was written."""


class TenantImport:
    """A file that was opened and whose manifest was read. `check` it before it is brought in with `run`."""

    def __init__(self, path: Path, progress: Progress) -> None:
        self._path = path
        self._progress = progress
        with self._reading():
            self._file = zipfile.ZipFile(path)
            text = self._file.read(MANIFEST)
        if orjson.loads(text).get("format") != FORMAT:
            file_format = orjson.loads(text).get("format")
            remedy = "Import it with the version of Atlas that wrote it, or a newer one."
            raise UnusableFile(f"{path} has the format {file_format!r}; this Atlas reads {FORMAT}.", remedy=remedy)
        with self._reading():
            self.manifest = TenantManifest.model_validate_json(text)
        self.read = TenantFile(self.manifest, hashlib.sha256(text).hexdigest(), path.stat().st_size)

    def check(self, keys: Sequence[VerifierKey] = ()) -> None:
        """Read the whole file, and raise unless it is as it was written and its audit log verifies.

        With `keys`, the newest part of the audit log must be signed by one of them, not only by the keys in the file.
        """
        with self._reading():
            for name, table in self.manifest.tables.items():
                self._progress(name, table.rows)
                count, digest = 0, hashlib.sha256()
                for line in self._lines(rows_name(name)):
                    digest.update(line)
                    count += 1
                if (count, digest.hexdigest()) != (table.rows, table.sha256):
                    raise self._changed(rows_name(name))
            for part in self.manifest.audit:
                self._check_audit(part, keys if part == self.manifest.audit[-1] else ())

    async def run(
        self, conn: Connection, *, actor: Actor, secret_keys: Sequence[str], reason: str | None = None
    ) -> Tenant:
        """Bring the tenant in. `secret_keys` are the ids of the keys that this installation can decrypt with."""
        async with conn.transaction():
            shift = await self._require_room(conn, secret_keys)
            with self._refusing():
                for name in self.manifest.tables:
                    await self._bring_rows(conn, name, shift)
            parts = await self._keep_audit(conn)
            await self._settle(conn, actor)
            tenant = await find_tenant(conn, self.manifest.tenant_id)
            came = {
                "from": self.manifest.cluster,
                "digest": self.read.digest,
                "exported_at": self.manifest.exported_at.isoformat(),
            }
            counts = {name: table.rows for name, table in self.manifest.tables.items() if table.rows}
            meta = {
                "slug": tenant.slug,
                **came,
                "rows": counts,
                "audit": [part.model_dump() for part in parts],
                "reason": reason,
            }
            await record(
                conn, Event("TENANT_IMPORTED", "tenant", str(tenant.id), actor, tenant.id, level="warn", meta=meta)
            )
            # Last, since it holds the gate's lock until the commit: no claim sees the jobs without the pause.
            await pause(conn, "tenant", str(tenant.id), actor=actor, reason=reason or "it was imported")
        await count_jobs(conn)
        return tenant

    async def _require_room(self, conn: Connection, secret_keys: Sequence[str]) -> int:
        """Refuse what would not fit here. Returns what is added to the numbers of events."""
        manifest = self.manifest
        here = {row["name"]: set(row["columns"]) for row in await fetch(conn, TABLES)}
        unknown = [name for name, table in manifest.tables.items() if not set(table.columns) <= here.get(name, set())]
        if unknown:
            raise UnusableFile(
                f"{self._path} is from a newer Atlas, {manifest.atlas}: it has other columns of {', '.join(unknown)}.",
                remedy="Upgrade this installation first.",
            )
        facts = await fetch_row(
            conn,
            FACTS,
            tenant_id=manifest.tenant_id,
            slug=manifest.slug,
            definitions=[definition["key"] for definition in manifest.definitions],
            workflows=[workflow["key"] for workflow in manifest.workflows],
            versions=[workflow["version"] for workflow in manifest.workflows],
        )
        assert facts is not None
        if facts["has_id"]:
            raise Conflict(
                f"Tenant {manifest.slug} is here already.", remedy="It was imported before; there is nothing to do."
            )
        if facts["has_slug"]:
            raise Conflict(
                f"There is another tenant {manifest.slug} here.",
                remedy="Slugs cannot be changed; remove one of the two.",
            )
        missing = [f"the definition {key}" for key in facts["no_definitions"]]
        missing += [f"the workflow {key}" for key in facts["no_workflows"]]
        if missing:
            raise Conflict(f"Its jobs need {', '.join(missing)} here.", remedy="Add them to this installation first.")
        if strange := sorted(set(manifest.secret_keys) - set(secret_keys)):
            raise Conflict(
                f"Its secrets are encrypted with the key {', '.join(strange)}, which this installation does not have.",
                remedy="Installations that tenants move between share one secret key: see ATLAS_SECRET_KEY_FILE.",
            )
        return int(facts["event_cursor"]) - manifest.event_cursor

    async def _bring_rows(self, conn: Connection, name: str, shift: int) -> None:
        columns, done = list(self.manifest.tables[name].columns), 0
        lines = self._lines(rows_name(name))
        while rows := _some(lines):
            text = b"[" + b",".join(rows) + b"]"
            done += await fetch_value(
                conn,
                IMPORT,
                tenant_id=self.manifest.tenant_id,
                name=name,
                columns=columns,
                rows=text.decode(),
                shift=shift,
            )
            self._progress(name, done)

    async def _keep_audit(self, conn: Connection) -> list[AuditPart]:
        kept, tenant_id = [], self.manifest.tenant_id
        first = await last_part(conn, tenant_id) + 1
        for number, part in enumerate(self.manifest.audit, start=first):
            lines, piece = self._lines(audit_name(part.number)), 0
            while some := _some(lines):
                piece += 1
                await keep_piece(conn, tenant_id, number, piece, b"".join(some))
            kept.append(part.model_copy(update={"number": number}))
        return kept

    async def _settle(self, conn: Connection, actor: Actor) -> None:
        await fetch(
            conn,
            SETTLE,
            tenant_id=self.manifest.tenant_id,
            definitions=orjson.dumps(self.manifest.definitions).decode(),
            workflows=orjson.dumps(self.manifest.workflows).decode(),
            **actor.arguments(),
        )

    def _check_audit(self, part: AuditPart, keys: Sequence[VerifierKey]) -> None:
        name, digest = audit_name(part.number), hashlib.sha256()
        check = part.check(keys)
        for line in self._lines(name):
            digest.update(line)
            check.feed([line])
        self._progress("audit_log", part.rows)
        if problems := part_problems(part, check, digest.hexdigest()):
            raise UnusableFile(f"{name} in {self._path} {problems[0]}.", remedy="Export the tenant again.")

    def _lines(self, name: str) -> Iterator[bytes]:
        try:
            with self._file.open(name) as opened:
                yield from opened
        except KeyError:
            raise self._changed(name) from None

    def _changed(self, name: str) -> UnusableFile:
        return UnusableFile(f"{name} in {self._path} is missing or was changed.", remedy="Export the tenant again.")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise UnusableFile(f"There is no file {self._path}.", remedy="Name the one that was exported.") from None
        except (
            OSError,
            KeyError,
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            orjson.JSONDecodeError,
            ValidationError,
            BadNote,
        ) as error:
            raise UnusableFile(
                f"{self._path} cannot be read as an exported tenant: {str(error).splitlines()[0]}.",
                remedy="Copy it again, or export the tenant again.",
            ) from error

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """What the database refuses: an id that is taken, a row of another tenant."""
        try:
            yield
        except asyncpg.UniqueViolationError as error:
            raise Conflict(
                f"A row of the file is here already: {error.detail or error}", remedy="Nothing was imported."
            ) from error
        except asyncpg.PostgresError as error:
            if error.sqlstate not in ("AT422", "22P02", "23502", "23514", "23503"):
                raise
            raise UnusableFile(
                f"{self._path} has rows that do not fit: {error}.", remedy="Nothing was imported."
            ) from error


def _some(lines: Iterator[bytes]) -> list[bytes]:
    """The next lines, as many as one statement carries."""
    rows, size = list[bytes](), 0
    for line in lines:
        rows.append(line)
        size += len(line)
        if len(rows) == ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            break
    return rows
