"""`atlas workflow`: ask for runs, look at them, steer them, answer their questions."""

from atlas.cli.workflow.command import app

__all__ = ["app"]
