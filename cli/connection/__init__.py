"""How a command reaches an installation."""
