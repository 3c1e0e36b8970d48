"""The typed client for applications, and what it may write."""
