"""Checks a single proof: that a row is in the signed tree, or that one signed tree continues another."""

import base64
from collections.abc import Sequence
from typing import Any

from .format import Report, event_leaf
from .records import UNREADABLE, head_of, reason_of
from .signed_notes import BadNote, Checkpoint, VerifierKey, open_note
from .tree import consistent, included, sha256

PROOF = "atlas-audit-proof/1"
CONSISTENCY = "atlas-audit-consistency/1"


def check_proof(document: dict[str, Any], keys: Sequence[VerifierKey]) -> Report:
    """Check that one row is in the signed tree, or that one signed tree is the beginning of another."""
    report = Report()
    try:
        path = [bytes.fromhex(step) for step in document["path"]]
        if document["format"] == CONSISTENCY:
            signed = _check_consistency(report, document, path, keys)
        elif document["format"] == PROOF:
            signed = _check_inclusion(report, document, path, keys)
        else:
            raise ValueError(f"unknown format {document['format']}")
        report.checkpoints, report.size, report.root = 1, signed.size, signed.root.hex()
    except BadNote as reason:
        report.find("checkpoint", f"The checkpoint {reason}.")
    except UNREADABLE as error:
        report.find("proof", f"The proof cannot be read: {reason_of(error)}.")
    return report


def _check_consistency(
    report: Report, document: dict[str, Any], path: Sequence[bytes], keys: Sequence[VerifierKey]
) -> Checkpoint:
    first, second = open_note(document["first"], keys), open_note(document["second"], keys)
    if not consistent(first.size, first.root, second.size, second.root, path):
        report.find("checkpoint", f"The tree of {first.size} leaves is not the beginning of that of {second.size}.")
    return second


def _check_inclusion(
    report: Report, document: dict[str, Any], path: Sequence[bytes], keys: Sequence[VerifierKey]
) -> Checkpoint:
    row = document["row"]
    body = document["body"].encode() if "body" in document else base64.b64decode(document["base64"])
    leaf = event_leaf(head_of(row), row["number"], sha256(body))
    signed = open_note(document["checkpoint"], keys)
    if "leaf" in document and document["leaf"] != leaf.hex():
        report.find("row", f"The proof names a leaf that row {row['id']} does not give.", row=row["id"])
    if "seal" in document:
        report.notices.append("That the row is in the seal named here is not part of the proof.")
    if not included(leaf, document["index"], signed.size, path, signed.root):
        report.find("row", f"Row {row['id']} is not in the signed tree as this proof says.", row=row["id"])
    return signed
