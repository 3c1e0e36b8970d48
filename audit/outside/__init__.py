"""Copies of checkpoints in places where the administrator of the database cannot change them."""
