"""Decides about hosts and remote workers, which lease jobs one by one."""
