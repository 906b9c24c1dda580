"""The command `swell plan`: what would be decided about given objects, without a cluster.

- `command`: the options of `plan schedule` and `plan autoscale`.
- `input`: reads objects and configuration from files.
- `job`: the commands `plan job` and `plan drain`, which ask what if (`swell.outlook`).
- `waiting`: the command `plan queue`, when waiting jobs would start.
- `tables`: shows a plan to people.
"""
