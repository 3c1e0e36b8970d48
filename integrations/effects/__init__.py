"""Adapters for the effect ledger: call a provider once by key, look a key up, list what the provider has."""

from atlas.engine.effects.adapters import (
    EffectAdapter,
    EffectUnknown,
    KeyReused,
    ProviderEntry,
    ProviderUnavailable,
    register_adapter,
)
from atlas.engine.effects.outcomes import Answer, CannotTell, Done, EffectRefused, NotDone
from atlas.engine.effects.reconcile_job import register_reconciliation

__all__ = [
    "Answer",
    "CannotTell",
    "Done",
    "EffectAdapter",
    "EffectRefused",
    "EffectUnknown",
    "KeyReused",
    "NotDone",
    "ProviderEntry",
    "ProviderUnavailable",
    "register_adapter",
    "register_reconciliation",
]
