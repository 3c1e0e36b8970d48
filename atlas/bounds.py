"""Bounds that several folders share. A bound of one module is defined there."""

# The largest value of Postgres's integer.
MAX_INTEGER = 2**31 - 1
# The most rows of one page of a list.
MAX_PAGE_SIZE = 200
# In bytes of JSON: the input of a job, and the output that a command, a host or a remote worker reports.
MAX_INPUT = 256 * 1024
# The output of a handler, unless its type says otherwise, and the result of a workflow's step.
DEFAULT_MAX_OUTPUT = 1024 * 1024
# The most retries of a job and of a job type.
MAX_RETRIES = 1000
# The most values in the JSON of one request that enqueues jobs.
MAX_VALUES = 200_000
MAX_IDEMPOTENCY_KEY_LENGTH = 200
