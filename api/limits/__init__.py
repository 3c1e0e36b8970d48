"""Bounds what one caller may use: rates, connections, requests at a time."""
