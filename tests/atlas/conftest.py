"""A server to speak to, for what speaks HTTP."""

from tests.api.conftest import server, settings

__all__ = ["server", "settings"]
