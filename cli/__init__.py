"""Starts: reads the settings once and runs one of the programs."""
