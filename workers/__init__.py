"""Does: claims jobs, runs their handlers, and hands the outcomes back to the engine."""
