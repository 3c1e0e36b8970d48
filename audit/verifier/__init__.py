"""Checks an audit log of Atlas without Atlas.

This folder stands alone: it imports the standard library, `cryptography` and itself. An auditor copies it, reads it,
and runs `python -m verifier --export FILE --key FILE` beside it; no database and no other part of Atlas is needed.

How the audit log is built. Every event is a row with its bytes. A sealer takes committed rows in batches, in the
order of (transaction id, row id), window by window: a window holds the transactions that the database's snapshot
shows at its end and did not show at its start, so each row has exactly one position, which follows from stored
numbers. Each row becomes a leaf over its bytes, its ids, its time and its tenant's running number; one more leaf
covers the header of the batch. The leaves form the Merkle tree of RFC 9162. The tree's size and root are signed
from time to time (Ed25519, the C2SP checkpoint text), and the signed notes are copied elsewhere.

The check follows the same steps: it computes every leaf and every root and compares them with what the batches
("seals") say and with what was signed.

tree.py          the Merkle tree, inclusion and consistency
signed_notes.py  public keys and signed checkpoints
format.py        rows, seals, snapshots and findings: what is written and what is reported
window.py        how seals join, and which rows a window takes in
unsealed.py      the check of rows that no seal covers yet
check.py         the verification of rows and seals, batch by batch
signers.py       which keys signed, and how each came to sign
orders.py        whether rows that are gone were removed by order
checkpoints.py   the comparison with what was signed
copies.py        the copies of checkpoints that are kept elsewhere
diff.py          which rows of a damaged batch are changed, missing or added
records.py       rows and seals as lines of an export
personal.py      the check of personal values in an export
export.py        the verification of an export, of the whole log or a range of it
export_lines.py  what the exports have in common
tenant_export.py the verification of a tenant's export
proof.py         the check of a single proof
"""
