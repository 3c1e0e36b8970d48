"""Does: claims jobs, runs their handlers, and records the outcomes through the engine."""
