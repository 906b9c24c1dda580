"""The command `swell plan`: what would be decided about given objects, without a cluster.

- `command`: the options of `plan schedule` and `plan autoscale`.
- `input`: reads objects and configuration from files.
- `job`: the commands `plan job` and `plan drain`, which ask what if.
- `waiting`: the command `plan queue`, when waiting jobs would start.
- `variants`: copies of a cluster and of a job with something changed.
- `whatif`: the controllers' decisions on such a copy.
- `tables`: shows a plan to people.
"""
