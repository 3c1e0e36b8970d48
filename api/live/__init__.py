"""Shows what happens while it happens: frames for browsers and programs, a room for each tenant."""
