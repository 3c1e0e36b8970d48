"""What a worker process reports: finished jobs, and how long jobs waited for their start."""

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Mapping

# Between two reports: short beside a window, so that offered and finished jobs are counted over the same time.
REPORT_SECONDS = 0.1
# A bucket is 5 % wider than the one before: fine enough for ratios, and small to send.
WIDTH = math.log(1.05)
SMALLEST_MS = 0.1


class StartCounts:
    """Counts finished jobs and queue latencies since the last report."""

    def __init__(self) -> None:
        self.done = 0
        self.latencies: Counter[int] = Counter()

    def started(self, enqueued_at: float) -> None:
        """A handler begins: `enqueued_at` is when its enqueue was called, in seconds since 1970."""
        self.latencies[self.bucket((time.time() - enqueued_at) * 1000)] += 1

    @staticmethod
    def bucket(ms: float) -> int:
        """The bucket of a latency."""
        return int(math.log(max(ms, SMALLEST_MS) / SMALLEST_MS) / WIDTH)

    def print(self) -> None:
        """Print a line of JSON, and begin anew."""
        print(json.dumps({"done": self.done, "latencies": self.latencies}), flush=True)
        self.done = 0
        self.latencies.clear()


def quantile(latencies: Mapping[int, int], part: float) -> float | None:
    """That part of the latencies was shorter, in ms. None without any."""
    rank = part * sum(latencies.values())
    for bucket in sorted(latencies):
        rank -= latencies[bucket]
        if rank <= 0:
            return SMALLEST_MS * math.exp((bucket + 1) * WIDTH)
    return None


def show_offered(jobs: int) -> None:
    """Report enqueued jobs, from the process that enqueues."""
    print(json.dumps({"offered": jobs}), file=sys.stdout, flush=True)
