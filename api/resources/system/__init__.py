"""Routes for the installation: its status and switches, pauses, ids and pages."""
