"""Measures, with numbers that anyone can repeat."""
