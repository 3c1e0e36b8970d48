"""Restate: a server with a log of its own on disk, which calls the service over HTTP/2 and journals each step."""

from collections.abc import Callable

from bench.peers.node import NodePeer, package_version
from bench.peers.peer import Call, WorkflowEngine, expect


class _Script(NodePeer):
    name = "restate"


class Restate(WorkflowEngine):
    name = "restate"

    def __init__(self, batch: int | None) -> None:
        self._script = _Script()

    @property
    def version(self) -> str:
        return package_version("@restatedev/restate-server")

    @property
    def settings(self) -> str:
        sdk = package_version("@restatedev/restate-sdk")
        return f"a server of its own with its default settings, one service, TypeScript SDK {sdk}; not on Postgres"

    async def prepare(self, database_url: str) -> None:
        """The server was started empty."""

    async def workflows(self, database_url: str, runs: int) -> float:
        result = await self._script.run("workflows", database_url, runs)
        expect("workflow runs", result["runs"], runs)
        return float(result["seconds"])

    async def work(self, database_url: str, jobs: int, ready: Callable[[], None]) -> list[float]:
        return await self._script.work(database_url, jobs, ready)

    async def produce(self, database_url: str, jobs: int) -> list[Call]:
        return await self._script.produce(database_url, jobs)
