"""The routes, grouped by theme, one file a resource."""
