"""One command: `manage.py atlas`."""
