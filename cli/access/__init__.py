"""Commands about tenants, tokens and grants."""
