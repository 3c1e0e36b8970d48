"""Effects: what jobs do outside of this database, recorded before it is done, so that none is repeated blindly."""
