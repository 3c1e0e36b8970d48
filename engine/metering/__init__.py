"""Counts what happened: usage, series, flow, insights and the overview."""
