"""Why a group waits, in numbers, for `swell explain`. Nothing is written.

- `explain`: runs one session over the objects and collects the explanation of a group.
- `explanation`: the explanation as values, ready for JSON.
- `positions`: the positions of all groups that wait in their queues.
- `queue_limits`: what is said of the group's queue and of a limit in its way.
- `holders`: which other groups hold the resources, and whether they can be made to give them up.
- `advice`: what would let the group start, tried out in further sessions.
"""
