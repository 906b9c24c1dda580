"""The command `swell explain`: why a job waits, in numbers, and what would let it start.

- `command`: the options, and where the objects come from.
- `target`: the object that the user names; `swell.outlook` explains it.
- `text`: shows the report to people.
- `fields`: what the fields of a kind mean.
"""
