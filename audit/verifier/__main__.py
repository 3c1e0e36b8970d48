"""`python -m verifier --export FILE --key FILE`: the check as a program of its own."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .copies import read_copies
from .export import verify_export
from .format import Report, counted
from .proof import check_proof
from .signed_notes import parse_keys


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0: nothing is wrong; 1: something is; 2: wrong usage."""
    parser = argparse.ArgumentParser(prog="verifier", description="Check an audit log of Atlas without Atlas.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--export", type=Path, help="a file made by `atlas audit export`")
    what.add_argument("--proof", type=Path, help="a file made by `atlas audit proof`")
    parser.add_argument(
        "--key", type=Path, required=True, action="append", help="a file of public keys; may be repeated"
    )
    parser.add_argument(
        "--checkpoints",
        type=Path,
        action="append",
        default=[],
        help="outside copies of checkpoints: a file or a folder",
    )
    chosen = parser.parse_args(arguments)
    try:
        keys = [key for path in chosen.key for key in parse_keys(path.read_text(encoding="utf-8"))]
        if chosen.proof:
            return _print(check_proof(json.loads(chosen.proof.read_text(encoding="utf-8")), keys))
        outside = [note for path in chosen.checkpoints for note in _notes(path)]
        return _print(verify_export(chosen.export, keys, outside))
    except (OSError, ValueError) as error:
        parser.error(str(error))


def _notes(path: Path) -> list[str]:
    """The notes of a file or a folder. One without any would pass for a check that was never made."""
    notes = read_copies(path)
    if not notes:
        raise ValueError(f"{path} holds no checkpoint")
    return notes


def _print(report: Report) -> int:
    for finding in report.findings:
        print(f"{finding.kind}: {finding.message}")
    for notice in report.notices:
        print(f"note: {notice}")
    print(f"{report.covered}, {counted(len(report.findings), 'finding')}")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
