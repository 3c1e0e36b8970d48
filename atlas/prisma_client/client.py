"""The generated Prisma client, served in this process over asyncpg instead of by Prisma's engine."""

import asyncio
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, Self

import asyncpg
from pydantic import BaseModel

from atlas.db.pool import UNREACHABLE, Connection, Pool, Queryable
from atlas.generated import Prisma, actions, models
from atlas.generated._base_client import USE_CLIENT_DEFAULT, AsyncBasePrisma, UseClientDefault
from atlas.generated._constants import DEFAULT_CONNECT_TIMEOUT, DEFAULT_TX_MAX_WAIT, DEFAULT_TX_TIMEOUT
from atlas.generated._types import PrismaMethod
from atlas.generated.client import Batch
from atlas.generated.errors import ClientNotConnectedError, InvalidModelError, UnknownModelError
from atlas.generated.metadata import PRISMA_MODELS
from atlas.prisma_client.batch import Queued, WriteBatch
from atlas.prisma_client.compile.reads import find_unique
from atlas.prisma_client.errors import UnsupportedQuery, translate
from atlas.prisma_client.operations import OPERATIONS, READS, ROWS, Operation, row_of
from atlas.prisma_client.raw import execute_raw, query_raw
from atlas.prisma_client.read_schema import packaged_schema
from atlas.prisma_client.rows import as_models
from atlas.prisma_client.schema import Model, Schema
from atlas.prisma_client.source import Bound, Pooled, Source
from atlas.prisma_client.transactions import Transaction

_RAW = ("query_raw", "query_first", "execute_raw")


class AsyncpgPrisma(Prisma):
    """Prisma's typed calls on the shared pool: `AsyncpgPrisma(pool).job.find_unique(where={"id": …})`.

    `AsyncpgPrisma.on(conn)` works on one connection, inside the transaction that is open there. Making one is cheap:
    the actions of a model (`.job`) are made when they are used.
    """

    __slots__ = ("_is_open", "_native_errors", "_schema", "_source")

    def __init__(self, pool: Pool, *, schema: Schema | None = None) -> None:
        self._bind(Pooled(pool), schema or packaged_schema())

    @classmethod
    def on(cls, connection: Queryable, *, schema: Schema | None = None, native_errors: bool = False) -> Self:
        """A client whose every call runs on this connection; it commits nothing that it did not open.

        On a pool, each call runs on a connection of its own. With `native_errors`, errors of the database are raised as
        asyncpg's, not as Prisma's.
        """
        client = cls.__new__(cls)
        source = Pooled(connection) if isinstance(connection, asyncpg.Pool) else Bound(connection)
        client._bind(source, schema or packaged_schema(), native_errors)
        return client

    def _moved_to(self, source: Bound) -> Self:
        """The same client on another source."""
        client = type(self).__new__(type(self))
        client._bind(source, self._schema, self._native_errors)
        return client

    def _bind(self, source: Source, schema: Schema, native_errors: bool = False) -> None:
        # The generated constructor would make the actions of every model, which takes longer than a short query.
        AsyncBasePrisma.__init__(
            self,
            use_dotenv=False,
            log_queries=False,
            datasource=None,
            connect_timeout=DEFAULT_CONNECT_TIMEOUT,
            http=None,
        )
        self._active_provider = "postgresql"
        self._source: Source = source
        self._schema = schema
        self._native_errors = native_errors
        self._is_open = True

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The actions of a model. They are not kept: client and actions would hold each other."""
            kind, model = _actions(name)
            return kind(self, model)

    @property
    def connection(self) -> Connection:
        """The one connection this client works on, for hand-written SQL beside its calls."""
        if isinstance(self._source, Bound):
            return self._source.conn
        raise UnsupportedQuery("`connection` of a client on a pool", remedy="Open `tx()`, or use `on(conn)`.")

    async def connect(self, timeout: int | timedelta | UseClientDefault = USE_CLIENT_DEFAULT) -> None:
        """Make sure that the database responds. The pool is open already, so no call has to wait for this."""
        limit, _ = self._prepare_connect_args(timeout=timeout)
        self._is_open = True
        try:
            async with asyncio.timeout(limit.total_seconds()), self._source.connection() as conn:
                await conn.execute("select 1")
        except (asyncpg.PostgresError, *UNREACHABLE) as error:
            self._is_open = False
            raise translate(error) from error

    async def disconnect(self, timeout: float | timedelta | None = None) -> None:
        """Answer no more calls. The pool or connection stays with its opener."""
        self._is_open = False

    def is_connected(self) -> bool:
        """Whether calls are served."""
        return self._is_open

    def is_transaction(self) -> bool:
        """Whether calls run inside a transaction."""
        source = self._source
        return isinstance(source, Bound) and not source.ended and bool(source.conn.is_in_transaction())

    # The generated base is invariant in the client it yields; this one yields ours, with its `.connection`.
    def tx(  # type: ignore[override]
        self,
        *,
        max_wait: int | timedelta = DEFAULT_TX_MAX_WAIT,
        timeout: int | timedelta = DEFAULT_TX_TIMEOUT,
    ) -> Transaction[Self]:
        """A transaction as a context manager; on a client that is in one already, a savepoint.

        `max_wait` is how long to wait for a connection, `timeout` how long the transaction may take
        before it is rolled back and TransactionExpiredError raised.
        """
        self._check_open()
        return Transaction(self, self._source, self._moved_to, max_wait=max_wait, timeout=timeout)

    def batch_(self) -> Batch:
        """Collect writes and make them in one transaction."""
        return WriteBatch(self, self._execute_together)

    async def get_metrics(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Prisma's engine counts queries; here there is no engine."""
        raise UnsupportedQuery("get_metrics", remedy="Read Atlas's own /metrics.")

    def _create_engine(self, dml_path: Any = None) -> NoReturn:
        raise UnsupportedQuery("Prisma's query engine")

    async def _execute(
        self,
        *,
        method: PrismaMethod,
        arguments: dict[str, Any],
        model: type[BaseModel] | None = None,
        root_selection: list[str] | None = None,
    ) -> Any:
        """Answer one call of the generated actions, in the shape they expect of the engine."""
        if not self._is_open:
            raise ClientNotConnectedError
        asked = None if method in _RAW else self._model(model)
        try:
            async with self._source.connection() as conn:
                if asked is None or model is None:
                    result = await self._raw(conn, method, arguments, model)
                else:
                    result = await self._answer(conn, method, asked, model, arguments, root_selection)
        except (asyncpg.PostgresError, *UNREACHABLE) as error:
            if self._native_errors:
                raise
            raise translate(error, model=asked) from error
        return {"data": {"result": result}}

    async def _answer(
        self,
        conn: Connection,
        method: str,
        asked: Model,
        model: type[BaseModel],
        arguments: dict[str, Any],
        root_selection: list[str] | None,
    ) -> Any:
        if method == "find_unique":
            # The most frequent call, so the steps of the others are left out (bench/prisma_find.py).
            where, include = arguments["where"], arguments["include"]
            statement = find_unique(self._schema, asked, model, where, include)
            record = await conn.fetchrow(statement.sql, *statement.parameters)
            result = None if record is None else row_of(statement, record)
        elif asked.is_view and method not in READS:
            raise UnsupportedQuery(f"`{method}` on the view {asked.table}")
        else:
            call = Operation(self._schema, asked, model, arguments, root_selection or [])
            result = await OPERATIONS[method](conn, call)
        return as_models(asked, model, result) if method in ROWS else result

    async def _raw(
        self, conn: Connection, method: str, arguments: dict[str, Any], result: type[BaseModel] | None
    ) -> Any:
        if method == "execute_raw":
            return await execute_raw(conn, arguments["query"], arguments["parameters"])
        return await query_raw(conn, arguments["query"], arguments["parameters"], self._schema, result)

    async def _execute_together(self, calls: Queued) -> None:
        self._check_open()
        try:
            async with self._source.connection() as conn, conn.transaction():
                together = self._moved_to(Bound(conn))
                for call in calls:
                    await together._execute(**call)
        except (asyncpg.PostgresError, *UNREACHABLE) as error:
            if self._native_errors:
                raise
            raise translate(error) from error

    def _model(self, result: type[BaseModel] | None) -> Model:
        name = getattr(result, "__prisma_model__", None)
        if name is None:
            raise InvalidModelError(result or type(None))
        model = self._schema.models.get(name)
        if model is None:
            raise UnknownModelError(name)
        return model

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClientNotConnectedError


@cache
def _actions(name: str) -> tuple[type[Any], type[BaseModel]]:
    """The generated actions and the model of an attribute, such as `job`."""
    for model in PRISMA_MODELS:
        if model.lower() == name:
            return getattr(actions, f"{model}Actions"), getattr(models, model)
    raise AttributeError(f"The Prisma client has no attribute {name!r}.")
