"""Measures the life of a job: drain, enqueue, start latency, memory, and what stands in front of a claim."""
