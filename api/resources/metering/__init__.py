"""Routes for figures over time: the overview, series and insights."""
