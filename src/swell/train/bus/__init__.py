"""How members agree on who trains together. Its files, in reading order:

- `plan`: one generation of the group, and the state a member holds.
"""
