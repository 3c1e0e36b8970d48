"""The programs that keep running: `atlas up`, `api`, `worker`, `scheduler`, `agent`."""
