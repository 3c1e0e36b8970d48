"""Metrics for Prometheus: of this process, and of the installation, read from the database.

Counters of jobs come from the audit log: each scrape counts the rows committed since the last one, so that every
process of an installation shows the same rates. Wait and run times are those of the jobs that ended in between, at
most some thousand of them. What is read from the database is cached for some seconds.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from atlas.api.app_state import AppState
from atlas.api.change_signals import ChangeSignals
from atlas.api.live.changes import read_place
from atlas.api.live.hub import Hub
from atlas.api.middleware import RequestStats
from atlas.api.ttl_cache import TtlCache
from atlas.audit import seal_lag
from atlas.audit.find import LogPosition
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.jobs.gate import read_gate
from atlas.engine.jobs.summary import KINDS, oldest_due

DEPTH = statement("api/sql/metrics_depth.sql")
EVENTS = statement("api/sql/metrics_events.sql")
TIMES = statement("api/sql/metrics_times.sql")
FACTS = statement("api/sql/metrics_facts.sql")

CACHED_SECONDS = 3.0
# In one statement, and the statements of one scrape: after a long pause the next scrapes count the rest.
MOST_EVENTS = 200_000
MOST_PAGES = 5
# Callers may invent job types, and a histogram is kept for ever; the rest of the types share one.
MOST_TYPES = 200
OTHER_TYPES = "(other)"
MOST_TIMES = 2000
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics(Collector):
    """The metrics of one process."""

    def __init__(self, api: AppState, stats: RequestStats, hub: Hub, signals: ChangeSignals) -> None:
        self._api = api
        self._stats = stats
        self._hub = hub
        self._signals = signals
        self._registry = CollectorRegistry()
        self._waits = self._histogram(
            "atlas_job_wait_seconds", "From enqueue, a delay included, to the start of the first attempt."
        )
        self._runs = self._histogram("atlas_job_run_seconds", "From the start of an attempt to its end.")
        self._registry.register(self)
        self._cache: TtlCache[str, bytes] = TtlCache(CACHED_SECONDS)
        self._place: LogPosition | None = None
        self._window: _Window | None = None
        self._types: set[str] = set()
        self._events: dict[str, int] = dict.fromkeys(dict.fromkeys(KINDS.values()), 0)
        self._facts: dict[str, Any] = {}
        self._depth: list[Any] = []
        self._lag = 0.0

    async def text(self) -> bytes:
        """The response to a scrape; several at once share one read."""
        return await self._cache.get("text", self._read)

    def collect(self) -> Iterable[Metric]:
        """What is not a histogram, from the last read."""
        yield from self._of_process()
        yield from self._of_installation()

    def _histogram(self, name: str, description: str) -> Histogram:
        return Histogram(name, description, ["job_type"], buckets=BUCKETS, registry=self._registry)

    async def _read(self) -> bytes:
        async with self._api.db.transaction(None, read_only=True) as conn:
            self._depth = await fetch(conn, DEPTH)
            self._facts = dict(await fetch_row(conn, FACTS) or {})
            self._facts["oldest"] = await oldest_due(conn)
            self._facts["gate"] = await read_gate(conn)
            self._lag = await seal_lag(conn)
            await self._count(conn)
        return generate_latest(self._registry)

    async def _count(self, conn: Connection) -> None:
        """Count what was committed since the last read; the rest of a long window is counted by the next."""
        if self._window is None:
            since, now = self._place, await read_place(conn)
            if since is None or since.epoch != now.epoch:
                self._place = now
                return
            self._window = _Window(since, now)
        window = self._window
        for _ in range(MOST_PAGES):
            rows = await fetch(
                conn, EVENTS, **window.bounds, after_xid=window.after_xid, after_id=window.after_id, most=MOST_EVENTS
            )
            for row in rows:
                window.after_xid, window.after_id = row["reached_xid"], row["reached_id"]
                if row["action"] in KINDS:
                    self._events[KINDS[row["action"]]] += row["count"]
            if sum(row["count"] for row in rows) < MOST_EVENTS:
                await self._observe(conn, window)
                self._place, self._window = window.now, None
                return

    async def _observe(self, conn: Connection, window: "_Window") -> None:
        for row in await fetch(conn, TIMES, **window.bounds, most=MOST_TIMES):
            label = self._label(row["job_type"])
            self._runs.labels(label).observe(max(0.0, row["run_seconds"]))
            if row["wait_seconds"] is not None:
                self._waits.labels(label).observe(max(0.0, row["wait_seconds"]))

    def _label(self, job_type: str) -> str:
        if job_type not in self._types and len(self._types) >= MOST_TYPES:
            return OTHER_TYPES
        self._types.add(job_type)
        return job_type

    def _of_process(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "atlas_http_requests", "Requests, by status.", labels=["method", "route", "status"]
        )
        seconds = CounterMetricFamily("atlas_http_seconds", "Time spent on them.", labels=["method", "route"])
        spent: dict[tuple[str, str], float] = defaultdict(float)
        for (method, route, status), (count, total) in list(self._stats.counts.items()):
            requests.add_metric([method, route, str(status)], count)
            spent[method, route] += total
        for labels, total in spent.items():
            seconds.add_metric(list(labels), total)
        yield requests
        yield seconds
        refused = CounterMetricFamily(
            "atlas_http_refused", "Connections refused or closed at a limit.", labels=["reason"]
        )
        for reason, count in self._api.clients.refused.items():
            refused.add_metric([reason], count)
        yield refused
        yield _gauge("atlas_http_connections", "Open connections of clients.", len(self._api.clients))
        yield _gauge("atlas_http_connections_limit", "How many there may be.", self._api.clients.most)
        pool = self._api.db.pool
        yield _gauge("atlas_pool_connections", "Connections of this process.", pool.get_size())
        yield _gauge("atlas_pool_idle", "Idle connections of this process.", pool.get_idle_size())
        yield _gauge("atlas_live_watchers", "Open live connections.", len(self._hub))
        yield _gauge("atlas_notifications", "1 if notifications arrive, 0 if not.", float(self._signals.hears))
        lag = self._signals.lag_seconds
        if lag is not None:
            yield _gauge("atlas_notification_lag_seconds", "Delay of the last test notification.", lag)

    def _of_installation(self) -> Iterator[Metric]:
        if not self._facts:
            return
        depth = GaugeMetricFamily(
            "atlas_jobs", "Active jobs and dead letters.", labels=["tenant", "job_type", "status"]
        )
        for row in self._depth:
            depth.add_metric([row["tenant"], row["job_type"], row["status"]], row["count"])
        yield depth
        events = CounterMetricFamily(
            "atlas_job_events", "What happened to jobs since this process started.", labels=["kind"]
        )
        for kind, count in self._events.items():
            events.add_metric([kind], count)
        yield events
        yield _gauge("atlas_online", "1 if work may start.", float(self._facts["gate"].online))
        yield _gauge("atlas_workers", "Workers with a valid lease.", self._facts["workers"])
        yield _gauge("atlas_oldest_due_seconds", "Age of the oldest due job.", self._facts["oldest"] or 0.0)
        yield _gauge("atlas_seal_lag_seconds", "Age of the oldest audit row without a seal.", self._lag)
        yield _gauge(
            "atlas_database_connections", "Connections to the database, by all programs.", self._facts["backends"]
        )
        yield _gauge("atlas_scraped_at_seconds", "When the database was read.", time.time())


@dataclass(slots=True)
class _Window:
    """Audit rows committed between two places, and how far they are counted."""

    since: LogPosition
    now: LogPosition
    after_xid: str = "0"
    after_id: int = 0

    @property
    def bounds(self) -> dict[str, Any]:
        return {"epoch": self.since.epoch, "prev": self.since.snapshot, "cur": self.now.snapshot}


def _gauge(name: str, description: str, value: float) -> Metric:
    return GaugeMetricFamily(name, description, value=value)
