"""Bounds that several folders share. A bound of one module is defined there."""

# The largest value of Postgres's integer.
LARGEST_INTEGER = 2**31 - 1
# The most rows of one page of a list.
LARGEST_PAGE = 200
# The input or output of a job as JSON, in bytes.
LARGEST_INPUT = 256 * 1024
# The most values in the JSON of one request that enqueues jobs.
MOST_VALUES = 200_000
LONGEST_IDEMPOTENCY_KEY = 200
