"""Adapters: how a provider is called by key, asked for a key, and listed. An application registers its own by name."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from atlas.engine.effects.outcomes import Answer
from atlas.errors import AtlasError, Conflict, NotFound

# The extended property in which a message of Microsoft Graph holds the key of its effect.
GRAPH_KEY = "String {7d1f3a52-9f0e-4c55-9a53-6a1f5c1d6b10} Name AtlasKey"


class EffectUnknown(AtlasError):
    """The provider was called, and whether it made the effect is not known. The next attempt asks before it calls."""


class KeyReused(EffectUnknown):
    """The provider has the key with another request: the input changed since, or two effects share a key."""


class ProviderUnavailable(AtlasError):
    """The provider could not be asked; nothing was changed there."""


class ProviderEntry(NamedTuple):
    """An effect as the provider lists it. `key` is None where its list does not show one."""

    reference: str
    key: str | None
    made_at: datetime


class EffectAdapter(Protocol):
    """A provider. Its `call`, which takes a key and what else it needs, differs from one to the other."""

    @property
    def grace(self) -> timedelta:
        """For so long after a call the provider's list may not show it."""
        ...

    async def lookup(self, key: str) -> Answer:
        """Ask the provider whether it made the effect with this key."""
        ...

    def list(self, since: datetime) -> AsyncIterator[ProviderEntry]:
        """What the provider made since then, in any order. Raises ProviderUnavailable if a page cannot be read."""
        ...


_adapters: dict[str, EffectAdapter] = {}


def register_adapter(provider: str, adapter: EffectAdapter) -> None:
    """Use this adapter for effects whose names begin with the provider: `stripe` for `stripe.charge`."""
    if not provider or "." in provider:
        raise Conflict(
            f"Invalid provider name {provider!r}.", remedy="Use the part of the effects' names before the dot."
        )
    _adapters[provider] = adapter


def remove_adapter(provider: str) -> None:
    """Forget the adapter of a provider."""
    _adapters.pop(provider, None)


def find_adapter(provider: str) -> EffectAdapter:
    """The adapter that is registered for a provider; raises NotFound if none is."""
    adapter = _adapters.get(provider)
    if adapter is None:
        registered = ", ".join(sorted(_adapters)) or "none"
        raise NotFound(
            "adapter for the provider",
            provider,
            remedy=f"Call register_adapter({provider!r}, …) in a module that --app names. Registered: {registered}.",
        )
    return adapter
