"""graphile-worker: deletes a finished job and keeps nothing of it."""

from bench.peers.node import NodePeer


class GraphileWorker(NodePeer):
    name = "graphile-worker"
    unfinished = "select count(*) from graphile_worker._private_jobs"

    def __init__(self, batch: int | None) -> None:
        self.batch = batch or 1000

    @property
    def settings(self) -> str:
        return f"concurrentJobs 24, maxPoolSize 25, localQueue {self.batch:,}, completeJobBatchDelay 0"
