"""Routes for jobs, their definitions, groups and dead letters, and what is done to them."""
