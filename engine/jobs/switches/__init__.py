"""The gate and pauses, which every start of a job, run or function obeys."""
