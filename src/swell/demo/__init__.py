"""The command `make demo`: a small network trains through a grow, a kill, a shrink, a preemption.

Its files, in reading order:

- `story`: the commands that a user would type, and when.
- `training`: the steps that a member has printed, and the pauses between them.
- `chart`: the loss, the members and the pauses, drawn for a terminal.
- `__main__`: `python -m swell.demo`.
"""
