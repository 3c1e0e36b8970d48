"""Measures the chosen peers on one server and gathers their figures."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import TypedDict

from bench.peers.databases import own_database
from bench.peers.measurement import ENGINES, PEERS, QUEUES, PeerResult, in_own_process
from bench.peers.peer import NotMeasured, Sizes

VERBS = ("drain", "enqueue_singly", "enqueue_bulk", "latency", "workflows")
TIMEOUT = 900.0


class Figure(TypedDict, total=False):
    """One measurement: how many, how long each time it was taken, and what follows; or why there is none."""

    amount: int
    seconds: list[float]
    per_second: float
    p50_ms: float
    p99_ms: float
    reason: str


class PeerFigures(TypedDict):
    """All figures of one peer, by verb."""

    version: str
    settings: str
    figures: dict[str, Figure]


@dataclass(slots=True)
class _Taken:
    """What was heard from one peer so far."""

    version: str = "-"
    settings: str = "-"
    seconds: dict[str, list[float]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def note(self, verb: str, result: PeerResult) -> None:
        if "reason" in result:
            self.reasons[verb] = result["reason"]
            return
        self.seconds.setdefault(verb, []).extend(result["seconds"])
        self.version, self.settings = result["version"], result["settings"]


async def measure_peers(
    database_url: str,
    sizes: Sizes,
    *,
    peers: Iterable[str] = tuple(PEERS),
    progress: Callable[[str], None] = lambda text: None,
) -> dict[str, PeerFigures]:
    """Measure each peer in databases of its own on this server; what cannot be measured says why.

    Repeats go around all peers, so that a busy spell of the machine does not fall on one of them alone.
    """
    taken = {name: _Taken() for name in _known(peers)}
    for number in range(sizes.repeats):
        for name, heard in taken.items():
            for verb in _verbs(name, sizes):
                if verb not in heard.reasons:
                    progress(f"{name}: {verb} ({number + 1} of {sizes.repeats})")
                    heard.note(verb, await _measure_once(database_url, name, verb, sizes))
    return {name: _figures(name, heard, sizes) for name, heard in taken.items()}


def _known(peers: Iterable[str]) -> list[str]:
    chosen = list(peers)
    for name in chosen:
        if name not in PEERS:
            raise NotMeasured(f"There is no peer {name}.", remedy=f"Choose from {', '.join(PEERS)}.")
    return chosen


def _verbs(name: str, sizes: Sizes) -> list[str]:
    kind = VERBS[:-1] if name in QUEUES else VERBS[-1:]
    return [verb for verb in kind if _amounts(verb, sizes)[0] > 0]


def _amounts(verb: str, sizes: Sizes) -> list[int]:
    return {
        "drain": [sizes.drain],
        "enqueue_singly": [sizes.singly],
        "enqueue_bulk": [sizes.bulk],
        "latency": [sizes.latency],
        "workflows": [sizes.workflows, sizes.steps],
    }[verb]


async def _measure_once(server_url: str, name: str, verb: str, sizes: Sizes) -> PeerResult:
    async with own_database(server_url, name) as url:
        return await in_own_process(
            name, verb, _amounts(verb, sizes), batch=sizes.batch, database_url=url, timeout=TIMEOUT
        )


def _figures(name: str, heard: _Taken, sizes: Sizes) -> PeerFigures:
    return {
        "version": heard.version,
        "settings": heard.settings,
        "figures": {verb: _figure(name, verb, heard, sizes) for verb in VERBS},
    }


def _figure(name: str, verb: str, heard: _Taken, sizes: Sizes) -> Figure:
    amount = _amounts(verb, sizes)[0]
    if verb in heard.reasons:
        return {"reason": heard.reasons[verb]}
    if verb not in heard.seconds:
        return {"reason": "It was not asked for." if amount == 0 else _not_compared(name)}
    seconds = heard.seconds[verb]
    if verb != "latency":
        return {"amount": amount, "seconds": seconds, "per_second": amount / median(seconds)}
    cuts = quantiles(seconds, n=100, method="inclusive")
    return {"amount": len(seconds), "p50_ms": median(seconds) * 1000, "p99_ms": cuts[98] * 1000}


def _not_compared(name: str) -> str:
    return "Only its workflows are compared." if name in ENGINES else "It has no durable steps."
