"""The clients: the API's operations as methods, for programs with an event loop and for those without one."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self
from uuid import UUID

from atlas.client.methods import AsyncCaller, BlockingCaller, run_now
from atlas.client.operations.jobs import JobOperations
from atlas.client.operations.system import SystemOperations
from atlas.client.operations.tenants import TenantOperations
from atlas.client.operations.triggers import TriggerOperations
from atlas.client.operations.workflows import WorkflowOperations
from atlas.client.request import RetryBudget
from atlas.client.route import Pause
from atlas.client.waiting import Signals, clock

# What goes over the network is imported where it is used: the command line also calls the API within its process.
if TYPE_CHECKING:
    from atlas.client.frames import Frame


class Operations(JobOperations, WorkflowOperations, TriggerOperations, TenantOperations, SystemOperations):
    """Everything that both clients do."""


class AtlasClient(AsyncCaller, Operations):
    """An Atlas that is reached over HTTP: `async with AtlasClient(url, token) as atlas`.

    `tenant` (a slug or an id) is for tokens that belong to no tenant: it selects whose jobs are meant. Without it an
    operator sees the jobs of all tenants, and new jobs belong to Atlas itself.
    """

    def __init__(self, url: str, token: str, *, tenant: str | None = None, retry: RetryBudget | None = None) -> None:
        from atlas.client.transport import Transport

        self._http = Transport(url, token, retry=retry)
        super().__init__(self._http, tenant)
        self._signals = Signals(self.live)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    def live(self, *, since: str | None = None) -> AsyncIterator["Frame"]:
        """Events as they happen, frame by frame; `since` is the `place` of a frame seen before.

        A broken connection is opened again. What happened in between is sent, or a Refetch instead.
        """
        # It brings websockets, which other calls do not need.
        from atlas.client.live import follow

        return follow(self._http, tenant=self._tenant, since=since)

    def _watch(self, id: UUID, timeout: float | None) -> AbstractAsyncContextManager[Pause]:
        return self._signals.about(id, timeout)


class SyncAtlasClient(BlockingCaller, Operations):
    """The same for programs without an event loop: `with SyncAtlasClient(url, token) as atlas`.

    It has the methods of AtlasClient but `live`. It waits by asking every two seconds.
    """

    def __init__(self, url: str, token: str, *, tenant: str | None = None, retry: RetryBudget | None = None) -> None:
        from atlas.client.transport import BlockingTransport

        super().__init__(BlockingTransport(url, token, retry=retry), tenant)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        run_now(self._transport.close())

    def _watch(self, id: UUID, timeout: float | None) -> AbstractAsyncContextManager[Pause]:
        return clock(self._transport.sleep, timeout)
