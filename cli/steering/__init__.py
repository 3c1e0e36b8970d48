"""Commands that watch and steer an installation."""
