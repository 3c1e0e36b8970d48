"""Serves people and programs over HTTP."""
