"""Commands for objects of any kind.

- `commands`: `swell get`, `describe` and `delete`.
- `describe`: the long form of an object.
- `events`: the events about an object, and their order.
- `deleting`: deletes objects and waits until they are gone.
- `apply`: `swell apply` and `replace`.
- `three_way`: the patch that `apply` sends.
- `top`: `swell top`.
- `top_topology`: `swell top --topology`.
"""
