"""The typed client for applications: reads everything, and creates jobs as `enqueue` does."""

from collections.abc import Sequence
from typing import Any, Self
from uuid import UUID

import asyncpg
from pydantic import BaseModel

from atlas.actors import Actor, as_actor, system
from atlas.db.pool import UNREACHABLE, Connection, Pool
from atlas.engine.admission import Admission, admitted, load_admission
from atlas.engine.jobs.enqueue import Enqueued, enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.prisma.prisma_rules import WRITES, check_write, chosen, with_choice
from atlas.generated._types import PrismaMethod
from atlas.prisma_client import AsyncpgPrisma, Schema
from atlas.prisma_client.errors import missing_value, translate, wrong_value
from atlas.prisma_client.source import Bound

_PRISMA = system("prisma")
_IDS = ("id", "tenant_id", "host_id", "server_instance_id")


class AtlasPrisma(AsyncpgPrisma):
    """Prisma's typed client on Atlas's tables: `AtlasPrisma(pool)`, or `AtlasPrisma.on(conn)` in an open transaction.

    `job.create` and `job.create_many` enqueue: admission, dedupe, audit row and wake-up, in one transaction. Writes
    that would be half of a change raise WriteRefused. Who creates is the job's `createdBy`, else `actor`. Jobs of a
    type that nothing has published are refused, unless `allow_unknown` is set.
    """

    __slots__ = ("_actor", "_allow_unknown")

    def __init__(
        self, pool: Pool, *, schema: Schema | None = None, actor: Actor | str = _PRISMA, allow_unknown: bool = False
    ) -> None:
        super().__init__(pool, schema=schema)
        self._actor, self._allow_unknown = as_actor(actor), allow_unknown

    @classmethod
    def on(
        cls,
        connection: Connection,
        *,
        schema: Schema | None = None,
        native_errors: bool = False,
        actor: Actor | str = _PRISMA,
        allow_unknown: bool = False,
    ) -> Self:
        """A client whose every call runs on this connection; it commits nothing that it did not open."""
        client = super().on(connection, schema=schema, native_errors=native_errors)
        client._actor, client._allow_unknown = as_actor(actor), allow_unknown
        return client

    def _moved_to(self, source: Bound) -> Self:
        client = super()._moved_to(source)
        client._actor, client._allow_unknown = self._actor, self._allow_unknown
        return client

    async def _execute(
        self,
        *,
        method: PrismaMethod,
        arguments: dict[str, Any],
        model: type[BaseModel] | None = None,
        root_selection: list[str] | None = None,
    ) -> Any:
        if method in WRITES and model is not None:
            check_write(self._model(model), method, arguments)
            if method in ("create", "create_many"):
                return {"data": {"result": await self._create(method, arguments, model)}}
            arguments = with_choice(arguments)
        return await super()._execute(method=method, arguments=arguments, model=model, root_selection=root_selection)

    async def _create(self, method: str, arguments: dict[str, Any], model: type[BaseModel]) -> Any:
        """Enqueue the rows of a call, and return what the actions expect of it."""
        self._check_open()
        data = arguments.get("data")
        if data is None:
            raise missing_value("Job.data")
        rows = [data] if method == "create" else data
        if not isinstance(rows, list | tuple):
            raise wrong_value("Job.data", "a list", rows)
        chosen_rows = [chosen(self._model(model), row) | {"allow_unknown": self._allow_unknown} for row in rows]
        try:
            async with self._source.connection() as conn, conn.transaction():
                enqueued = await _enqueue(
                    conn, chosen_rows, self._actor, coalesce=bool(arguments.get("skipDuplicates"))
                )
                if method == "create_many":
                    return {"count": sum(not entry.deduplicated for entry in enqueued)}
                query = {"where": {"id": str(enqueued[0].id)}, "include": arguments.get("include")}
                inside = self._moved_to(Bound(conn))
                row = await inside._execute(method="find_unique_or_raise", arguments=query, model=model)
                return row["data"]["result"]
        except (asyncpg.PostgresError, *UNREACHABLE) as error:
            if self._native_errors:
                raise
            raise translate(error, model=self._model(model)) from error


async def _enqueue(conn: Connection, rows: Sequence[dict[str, Any]], actor: Actor, *, coalesce: bool) -> list[Enqueued]:
    """Enqueue all of them or none, those of each creator in one call."""
    admissions: dict[tuple[str, UUID], Admission] = {}
    jobs: dict[Actor, list[NewJob]] = {}
    for row in rows:
        creator = row.pop("created_by", None)
        ids: dict[str, Any] = {name: UUID(str(row[name])) for name in _IDS if name in row}
        job = NewJob(**(row | ids))
        key = (job.job_type, job.tenant_id)
        if key not in admissions:
            admissions[key] = await load_admission(conn, *key)
        jobs.setdefault(actor if creator is None else Actor("user", creator), []).append(admitted(job, admissions[key]))
    batches = [await enqueue_many(conn, batch, actor=creator, coalesce=coalesce) for creator, batch in jobs.items()]
    return [entry for some in batches for entry in some]
