"""The bus under faults, in virtual time: whole groups of its state machines, and what they do.

- `story`: all that happens to a group from outside, drawn from a seed or read from a file.
- `clock`: virtual time.
- `process`: one process: a member's state machine, its training thread, its clock.
- `network`: lines between processes, which are slow, cut, or broken.
- `training`: the training threads of a group: they form it, and do steps together.
- `operator`: starts, lists, signals and replaces processes.
- `rules`: what must never happen, and what must come about.
- `world`: all of it put together, and one run.
- `flaws`: the bugs that can be planted.
- `campaign`: many runs, and their report.
- `chaos`: jobs of real processes, disturbed, in real time.
"""
