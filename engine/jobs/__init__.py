"""Jobs and the verbs that move them: enqueue, claim, finish, retry, cancel, delete."""
