"""The version before this one: the commit whose programs have to work with today's tables and functions.

After 1.0 it is the last release's, and is moved by the release. Until then it is moved forward, to the last commit of
main, by the commit that changes a table or a function in a way that running programs would not survive; that commit
says so.
"""

COMMIT = "dd6bcc8f1a1165d042a039007d48a5d0127b872d"
