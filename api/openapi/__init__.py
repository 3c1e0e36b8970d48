"""The OpenAPI description."""
