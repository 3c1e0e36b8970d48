"""Seals committed rows into the tree, and signs its checkpoints."""
