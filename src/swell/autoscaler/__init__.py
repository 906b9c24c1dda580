"""Decides how large elastic jobs should be. In reading order:

- `needs`: what one replica asks of a node; `views`: jobs, pods and nodes as far as sizes need them;
- `tally`: where each replica of a role counts; `ledger`: all of it kept up to date; `resource`:
  the cluster's totals and what every node has left; `inquiry`: the same from plain objects;
- `policies`: pure functions from jobs and cluster to targets; `damping`: what keeps them calm;
- `plan`: one decision over given objects; `writing`, `loop`: decisions become status patches.
"""
