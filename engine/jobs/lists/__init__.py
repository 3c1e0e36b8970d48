"""Reads jobs: one, pages of them, groups, workers, and how many there are."""
