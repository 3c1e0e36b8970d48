"""`atlas workflow`: ask for runs, look at them, steer them, answer their questions."""

from cli.workflow.command import app

__all__ = ["app"]
