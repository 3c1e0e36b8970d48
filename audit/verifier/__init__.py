"""Checks the account of Atlas without Atlas.

This folder is whole: it imports the standard library, `cryptography` and itself. An auditor copies it, reads it,
and runs `python -m verifier --export FILE --key FILE` beside it; no database and no other part of Atlas is needed.

How the account is built. Every event is a row with its bytes. A sealer takes committed rows in batches, in the
order of (transaction id, row id), window by window: a window holds the transactions that the database's snapshot
shows at its end and did not show at its start, so each row has exactly one place, which follows from stored
numbers. Each row becomes a leaf over its bytes, its ids, its time and its tenant's running number; one more leaf
covers the header of the batch. The leaves form the Merkle tree of RFC 9162. The tree's size and root are signed
from time to time (Ed25519, the C2SP checkpoint text), and the signed notes are copied elsewhere.

The check walks that road again: it computes every leaf and every root anew and compares them with what the
batches ("seals") say and with what was signed.

tree.py     the Merkle tree, inclusion and consistency
notes.py    public keys and signed checkpoints
account.py  rows, seals, snapshots, findings: what is written and what is reported
place.py    how seals join, and which rows a window takes in
check.py    the walk through the account
damage.py   which rows of a damaged batch are changed, missing or added
export.py   the walk through an export file, and through a single proof
"""
