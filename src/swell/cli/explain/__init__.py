"""The command `swell explain`: why a job waits, in numbers, and what would let it start.

- `command`: the options, and where the objects come from.
- `target`: the object that the user names, and its PodGroup.
- `report`: reads what a session needs, runs the scheduler's explanation over it.
- `text`: shows the report to people.
"""
