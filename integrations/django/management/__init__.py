"""What Django finds by this name in an installed app: its commands."""
