"""The audit log: an append-only record of every change, written in the transaction that made it."""

from atlas.audit.crosscheck import cross_check
from atlas.audit.export import Extract, export
from atlas.audit.find import AuditPage, AuditRow, LogPosition, Query, find, follow, log_position
from atlas.audit.personal_data import commit, conceal, erase, reveal
from atlas.audit.proof import prove, prove_consistency
from atlas.audit.record import Event, event_body, record
from atlas.audit.retention import PrunedRows, new_epoch, prune
from atlas.audit.seal import seal, seal_lag
from atlas.audit.sealer import run_sealer, seal_and_sign, seal_first, sign_epoch
from atlas.audit.verify import LastVerified, never_sealed, verify

__all__ = [
    "AuditPage",
    "AuditRow",
    "Event",
    "Extract",
    "LastVerified",
    "LogPosition",
    "PrunedRows",
    "Query",
    "commit",
    "conceal",
    "cross_check",
    "erase",
    "event_body",
    "export",
    "find",
    "follow",
    "log_position",
    "never_sealed",
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
