"""What comes in and what goes out: the bodies, the pages and the answers of the API."""
