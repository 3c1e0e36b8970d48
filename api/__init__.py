"""Serves people and programs over HTTP."""

from atlas.extras import require

require("server")
