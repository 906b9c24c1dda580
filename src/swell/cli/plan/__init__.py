"""The command `swell plan`: what would be decided about given objects, without a cluster.

- `command`: the options of `plan schedule` and `plan autoscale`.
- `input`: reads objects and configuration from files.
- `tables`: shows a plan to people.
"""
