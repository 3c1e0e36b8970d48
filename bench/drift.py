"""Drift: the ratios of this run beside those that were stored for this kind of machine.

A ratio compares Atlas with bare SQL, or with another load, in the same run: it says the same on a fast machine and on a
slow one of the same kind. A run fails if a ratio is below 0.85 of the stored one.
"""

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path

LOWEST_PART = 0.85
STORED = Path(__file__).with_name("ratios.json")


def machine() -> str:
    """The kind of this machine: its processor and how many cores it has."""
    return f"{platform.machine()}, {os.cpu_count()} cores"


def store(ratios: Mapping[str, float], *, is_part: bool = False, path: Path = STORED) -> None:
    """Let later runs on this kind of machine be compared with these. Those of a part of a run leave the others."""
    kept = _read(path)
    others = kept.get(machine(), {}) if is_part else {}
    kept[machine()] = others | {name: round(ratio, 3) for name, ratio in ratios.items()}
    path.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")


def drifted(ratios: Mapping[str, float], *, is_part: bool = False, path: Path = STORED) -> list[str]:
    """What became worse, as sentences. Ratios are better the higher they are. A part of a run may lack some.

    Raises LookupError if none of these is stored for this kind of machine.
    """
    stored = _read(path).get(machine(), {})
    if not stored.keys() & ratios.keys():
        raise LookupError(
            f"{path.name} has none of these ratios of a machine with {machine()}. "
            "Store them with `make bench ARGS='--gate --store'`."
        )
    return [
        f"{name}: {ratios[name]:.2f} is below {LOWEST_PART} of the stored {before:.2f}"
        if name in ratios
        else f"{name}: not measured, {before:.2f} is stored"
        for name, before in stored.items()
        if ratios.get(name, before if is_part else 0) < LOWEST_PART * before
    ]


def _read(path: Path) -> dict[str, dict[str, float]]:
    kept: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.exists() else {}
    return kept
