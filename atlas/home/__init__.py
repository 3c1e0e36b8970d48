"""The files in ATLAS_HOME: whose database they belong to, who may read them, and what `atlas up` reports there."""
