"""Handlers: registered with `@job`, published as job types, and called with the context of an attempt."""
