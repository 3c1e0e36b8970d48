"""The audit log: an append-only record of every change, written in the transaction that made it."""
