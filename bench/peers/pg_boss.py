"""pg-boss: keeps a finished job as completed; its handler is given a whole batch in one call."""

from bench.peers.node import NodePeer


class PgBoss(NodePeer):
    name = "pg-boss"
    unfinished = "select count(*) from pgboss.job where name = 'noop' and state <> 'completed'"

    def __init__(self, batch: int | None) -> None:
        self.batch = batch or 1000

    @property
    def settings(self) -> str:
        return f"batchSize {self.batch:,}, localConcurrency 4, burstWhenBatchFull; latency: useListenNotify"
