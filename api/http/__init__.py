"""HTTP itself: the server, its bounds, the middleware, files and headers."""
