"""Decides: the only code that moves a job, an intent or a workflow from state to state."""
