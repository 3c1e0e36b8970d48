"""What people type, and what is printed."""
