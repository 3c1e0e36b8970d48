"""Answers people and programs over HTTP."""
