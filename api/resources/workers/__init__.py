"""Routes for what runs jobs: workers, remote workers, hosts and their agents."""
