"""Waits: all that happens because time passed."""

from atlas.extras import require

require("server")
