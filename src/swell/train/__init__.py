"""Elastic training: a library for the training process, which survives resizes of its job.

It runs in users' programs, so it imports neither a training framework nor the rest of Swell before
it has to. Its files, in reading order:

- `place`: the place of this process in its job: role, index, and the files it was given.
- `group`: the group as the training thread sees it: join, begin a step, fail, finish.
- `bus`: how members agree on who trains together.
"""
