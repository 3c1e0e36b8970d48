"""Who may do what: tokens, sessions, grants and quotas."""
