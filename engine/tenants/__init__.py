"""Tenants: their rows, their move to another installation, their removal."""
