"""Hosts and remote workers, which lease jobs one by one."""
