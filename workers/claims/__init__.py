"""Claims the jobs of a worker, holds them until they start, and records their outcomes."""
