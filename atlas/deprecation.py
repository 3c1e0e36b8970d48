"""Warnings about names that go away. RELEASING.md has the policy."""

import warnings

_warned: set[str] = set()


def warn_renamed(old: str, new: str) -> None:
    """Warn, once in a process, the caller's caller: the old name goes with the next minor version."""
    if old not in _warned:
        _warned.add(old)
        warnings.warn(f"{old} is now {new}. The next minor version removes {old}.", DeprecationWarning, stacklevel=3)
