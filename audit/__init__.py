"""Remembers: an append-only account of every change, written in the transaction that made it."""

from audit.crosscheck import cross_check
from audit.export import Extract, export
from audit.find import Entry, Horizon, Page, Query, find, follow, horizon
from audit.keeping import Pruned, new_epoch, prune
from audit.private import PrivateValue, commit, conceal, erase, reveal
from audit.proof import prove, prove_consistency
from audit.record import Event, body_of, record
from audit.seal import seal, seal_lag
from audit.sealer import run_sealer, seal_and_sign, seal_first, sign_epoch
from audit.verify import Mark, verify

__all__ = [
    "Entry",
    "Event",
    "Extract",
    "Horizon",
    "Mark",
    "Page",
    "PrivateValue",
    "Pruned",
    "Query",
    "body_of",
    "commit",
    "conceal",
    "cross_check",
    "erase",
    "export",
    "find",
    "follow",
    "horizon",
    "new_epoch",
    "prove",
    "prove_consistency",
    "prune",
    "record",
    "reveal",
    "run_sealer",
    "seal",
    "seal_and_sign",
    "seal_first",
    "seal_lag",
    "sign_epoch",
    "verify",
]
