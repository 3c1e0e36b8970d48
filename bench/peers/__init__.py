"""Measures comparable queues beside Atlas, on the same Postgres, each with its own recommended settings."""

from bench.peers.measure import Figure, PeerFigures, measure_peers
from bench.peers.measurement import PEERS
from bench.peers.peer import NotMeasured, Peer, Sizes
from bench.peers.report import keep, show

__all__ = ["PEERS", "Figure", "NotMeasured", "Peer", "PeerFigures", "Sizes", "keep", "measure_peers", "show"]
