"""Workflows declared as JSON documents: checked when saved, kept by version, run by the engine of those in code."""
