"""BullMQ: on Redis without persistence, so that nothing of it waits for a disk."""

from bench.peers.node import NodePeer


class Bullmq(NodePeer):
    name = "bullmq"

    def __init__(self, batch: int | None) -> None:
        self.batch = batch or 100

    @property
    def settings(self) -> str:
        return f"Redis without persistence (no fsync), concurrency {self.batch}, removeOnComplete"

    async def settle(self, database_url: str) -> None:
        """Redis has nothing to analyse."""

    async def count_unfinished(self, database_url: str) -> int:
        return int((await self.run("unfinished", database_url))["unfinished"])
