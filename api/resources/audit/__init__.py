"""Routes for the audit log: its rows, seals, verifications and reports."""
