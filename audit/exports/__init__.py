"""Exports and proofs that anyone can check without a database, and what was kept of earlier ones."""
