"""The command `swell queue`: the queues that share a cluster.

- `command`: creates, lists, describes, closes, opens and deletes queues.
- `table`: shows queues to people.
"""
