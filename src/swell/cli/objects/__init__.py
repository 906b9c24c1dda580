"""Commands for objects of any kind.

- `get`: `swell get`.
- `finding`: the objects that a command is about.
- `formats`: the formats that objects are printed in.
- `jsonpath`: templates of paths.
- `watching`: `swell get -w`.
- `commands`: `swell describe` and `delete`.
- `describe`: the long form of an object.
- `describe_job`: the first lines about a job: its state, why, its sizes and pods.
- `events`: the events about an object, and their order.
- `deleting`: deletes objects and waits until they are gone.
- `apply`: `swell apply` and `replace`.
- `creating`: `swell create`.
- `editing`: `swell diff` and `edit`.
- `three_way`: the patch that `apply` sends.
- `marking`: `swell label`, `annotate`, `cordon` and `uncordon`.
- `node_faults`: the columns of failures that jobs blame on nodes, and `swell trust`.
- `draining`: `swell drain`.
- `saving_pods`: lets pods of drained nodes save first.
- `waiting`: `swell wait`.
- `listing`: `swell events`, `api-resources` and `auth can-i`.
- `top`: `swell top`.
- `top_topology`: `swell top --topology`.
"""
