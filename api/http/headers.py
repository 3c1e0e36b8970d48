"""The headers of a request."""

from starlette.types import Scope


def header(scope: Scope, name: bytes) -> str | None:
    """A header of the request, by its lower-case name."""
    value: bytes | None = scope["atlas.headers"].get(name)
    return None if value is None else value.decode("latin-1")
