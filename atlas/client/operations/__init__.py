"""The operations of the API, each defined by the signature of its method: a module for each part of the API."""
