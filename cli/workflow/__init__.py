"""`atlas workflow`: ask for runs, show them, steer them, decide their approvals."""

from atlas.cli.workflow.command import app

__all__ = ["app"]
