"""Turns the arguments of a Prisma call into one SQL statement and its parameters.

Elsewhere in Atlas SQL lives in files; here it is composed, because the question is only known when it is
asked. Two rules keep that safe: every value becomes a parameter, and every identifier is looked up in the
schema and quoted. A key that the schema or this compiler does not know is refused, never passed over.
"""
