"""Steps of runs: called once, recorded, replayed."""
