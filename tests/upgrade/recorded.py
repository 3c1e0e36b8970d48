"""The version before this one: the commit whose programs have to work with today's tables and functions.

After 1.0 it is the last release's, and is moved by the release. Until then it is moved forward, to the last commit of
main, by the commit that changes a table or a function in a way that running programs would not survive; that commit
says so.
"""

COMMIT = "20b20271a692ba5fa5b544fcd2e67b612ec1a50a"
