"""Models of request bodies; those of responses that the client reads are in atlas.models."""
