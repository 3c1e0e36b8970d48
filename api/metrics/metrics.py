"""Metrics for Prometheus: of this process, and of the installation, read from the database.

Counters and times of jobs are the totals that the meter keeps from the audit log: complete, and the same in every
process. A scrape brings them up to now first. What is read from the database is cached for some seconds.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import asyncpg
import orjson
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from atlas.api.app_state import AppState
from atlas.api.caches.change_signals import ChangeSignals
from atlas.api.caches.ttl_cache import TtlCache
from atlas.api.http.middleware import RequestStats
from atlas.api.live.hub import Hub
from atlas.api.metrics.process_metrics import ApiProcess
from atlas.audit.forwarding.places import ForwarderStatus, list_forwarders
from atlas.audit.sealing.seal_status import seal_lag
from atlas.db.schema import schema_name
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.effects.find_effects import count_doubts
from atlas.engine.jobs.lists.newest_active import is_slowed
from atlas.engine.jobs.lists.summary import KINDS, oldest_due
from atlas.engine.jobs.switches.gate import read_gate
from atlas.engine.metering.usage import meter_usage
from atlas.engine.xmin_horizon import KINDS as HOLDER_KINDS
from atlas.engine.xmin_horizon import find_holders
from atlas.errors import AtlasError
from atlas.logs import get_logger

DEPTH = statement("api/metrics/sql/metrics_depth.sql")
TOTALS = statement("api/metrics/sql/metrics_totals.sql")
FACTS = statement("api/metrics/sql/metrics_facts.sql")

CACHED_SECONDS = 3.0
# Of the meter, for one scrape: after a long pause the next scrapes, or the scheduler, meter the rest.
MAX_BATCHES = 20
# Callers may invent job types. This many types and tenants are named at most; the rest is counted together.
MAX_NAMED = 100

CONTENT_TYPE = CONTENT_TYPE_LATEST

log = get_logger("api")


class Metrics(Collector):
    """The metrics that a process returns: its own, those of its neighbours on one port, those of the installation."""

    def __init__(
        self, api: AppState, stats: RequestStats, hub: Hub, signals: ChangeSignals, process: ApiProcess | None = None
    ) -> None:
        self._api = api
        self._process = process
        self._stats = stats
        self._hub = hub
        self._signals = signals
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._cache: TtlCache[str, bytes] = TtlCache(CACHED_SECONDS)
        self._totals: list[Any] = []
        self._facts: dict[str, Any] = {}
        self._depth: list[Any] = []
        self._lag = 0.0
        self._forwarders: list[ForwarderStatus] = []

    async def text(self) -> bytes:
        """The response to a scrape; several at once share one read."""
        return await self._cache.get("text", self._read)

    def collect(self) -> Iterable[Metric]:
        """What the last read found."""
        own = self.of_process()
        yield from own if self._process is None else self._process.join(own)
        yield from self._of_installation()

    async def _read(self) -> bytes:
        await self._meter()
        async with self._api.db.transaction(None, read_only=True) as conn:
            self._depth = await fetch(conn, DEPTH, most=MAX_NAMED, slowed=await is_slowed(conn))
            self._totals = await fetch(conn, TOTALS)
            self._facts = dict(await fetch_row(conn, FACTS, schema=schema_name()) or {})
            self._facts["oldest"] = await oldest_due(conn)
            self._facts["gate"] = await read_gate(conn)
            self._facts["holders"] = await find_holders(conn)
            self._facts["doubts"] = await count_doubts(conn)
            self._lag = await seal_lag(conn)
            self._forwarders = await list_forwarders(conn)
        return generate_latest(self._registry)

    async def _meter(self) -> None:
        """Bring the totals up to now. Where nothing can be written, they stay as they are: the rest is still shown."""
        try:
            for _ in range(MAX_BATCHES):
                async with self._api.db.transaction(None) as conn:
                    if not await meter_usage(conn):
                        return
        except (asyncpg.PostgresError, AtlasError) as error:
            log.warning("the totals of jobs could not be updated", reason=str(error) or type(error).__name__)

    def of_process(self) -> Iterator[Metric]:
        """What this process counts by itself."""
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
            "atlas_job_events", "What happened to jobs since the installation began.", labels=["kind"]
        )
        for kind in dict.fromkeys(KINDS.values()):
            events.add_metric([kind], sum(row[kind] for row in self._totals))
        yield events
        yield self._histogram(
            "atlas_job_wait_seconds", "From when a job was due to the start of its first attempt.", "wait"
        )
        yield self._histogram("atlas_job_run_seconds", "From the start of an attempt to its end.", "run")
        yield _gauge("atlas_online", "1 if work may start.", float(self._facts["gate"].online))
        yield _gauge("atlas_workers", "Workers with a valid lease.", self._facts["workers"])
        yield _gauge("atlas_oldest_due_seconds", "Age of the oldest due job.", self._facts["oldest"] or 0.0)
        yield _gauge("atlas_effects_unknown", "Effects that a person must settle.", self._facts["doubts"])
        yield _gauge("atlas_seal_lag_seconds", "Age of the oldest audit row without a seal.", self._lag)
        yield from self._of_forwarders()
        yield from self._of_audit_log()
        yield _gauge(
            "atlas_database_connections", "Connections to the database, by all programs.", self._facts["backends"]
        )
        held = GaugeMetricFamily(
            "atlas_horizon_held_seconds", "Since when the xmin horizon is held, by what; 0 if not.", labels=["kind"]
        )
        for kind in HOLDER_KINDS:
            ages = [holder.seconds for holder in self._facts["holders"] if holder.kind == kind]
            held.add_metric([kind], max(ages, default=0.0))
        yield held
        yield _gauge("atlas_dead_rows", "Dead rows in Atlas's tables, by estimate.", self._facts["dead_rows"])
        yield _gauge("atlas_scraped_at_seconds", "When the database was read.", time.time())

    def _of_forwarders(self) -> Iterator[Metric]:
        rows = GaugeMetricFamily(
            "atlas_audit_forward_lag_rows", "Sealed audit rows that a forwarder has yet to send.", labels=["forwarder"]
        )
        seconds = GaugeMetricFamily(
            "atlas_audit_forward_lag_seconds", "For how long the oldest of them has waited.", labels=["forwarder"]
        )
        for forwarder in self._forwarders:
            rows.add_metric([forwarder.name], forwarder.lag_rows)
            seconds.add_metric([forwarder.name], forwarder.lag_seconds)
        yield rows
        yield seconds

    def _of_audit_log(self) -> Iterator[Metric]:
        """The last verification by a scheduler, and the copies of checkpoints outside; nothing before the first."""
        if self._facts["audit_whole"] is not None:
            yield _gauge("atlas_audit_whole", "1 if the last verification found nothing.", self._facts["audit_whole"])
        if self._facts["audit_verified_age"] is not None:
            age = self._facts["audit_verified_age"]
            yield _gauge("atlas_audit_verified_age_seconds", "Age of the last verification that found nothing.", age)
        ages = orjson.loads(self._facts["copy_ages"] or "{}")
        copied = GaugeMetricFamily(
            "atlas_checkpoint_copy_age_seconds", "Age of the newest copy of a checkpoint.", labels=["place"]
        )
        for place, age in ages.items():
            copied.add_metric([place], age)
        yield copied

    def _histogram(self, name: str, description: str, times: str) -> Metric:
        family = HistogramMetricFamily(name, description, labels=["job_type"])
        for row in self._totals:
            family.add_metric(
                [row["job_type"]], _buckets(row["bounds"], row[f"{times}s"]), sum_value=row[f"{times}_seconds"]
            )
        return family


def _buckets(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Prometheus's buckets: each counts what is below its bound, the buckets before it included."""
    names = [*map(str, bounds), "+Inf"]
    return list(zip(names, accumulate(counts), strict=True))


def _gauge(name: str, description: str, value: float) -> Metric:
    return GaugeMetricFamily(name, description, value=value)
