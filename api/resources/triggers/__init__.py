"""Routes for what starts jobs by itself: triggers, recurring functions, events and webhooks."""
