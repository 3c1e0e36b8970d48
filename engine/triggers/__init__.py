"""Triggers: schedules and events that start jobs and workflows, and the record that makes each firing single."""
