"""The state of a training program: a tree of plain values and tensors. Its files, in reading order:

- `tree`: a tree as a structure of plain values and a list of tensors, and back.
- `ledger`: the state besides the model: progress, position in the data, the user's own values.
- `replication`: the state of the newest member, sent to those that are behind.
- `shards`: states that are cut over members: rows, holders, and the newest whole one.
"""
