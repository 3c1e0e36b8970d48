"""Routes for who may do what: tenants, tokens, sessions and the grants of logins."""
