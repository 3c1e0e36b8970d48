"""One attempt: its log, its progress, its output, and the transaction that its handler may end it in."""
