"""The policies that choose sizes, by name. A policy is a pure function from jobs and cluster.

- `interface`: the arguments and results of every policy.
- `ranking`: the order of roles by how far they are from their minimum to their maximum.
- `queue_room`: what the queues still allow while a plan is made.
- `held_domains`: where roles may grow that must stay in one part of the network.
- `peculiar`: roles to which it matters where other pods are.
- `room`: the part of the cluster that is still free while a plan is made.
- `dry_run`: rounds of single steps up and down, computed many at a time.
- `gang_walk`: waiting gangs, placed one after the other while roles shrink for them.
- `shrink_search`: the smallest set of shrinks with which a gang starts.
- `waiting`: which waiting jobs can start, and which roles have to shrink for that.
- `fulfillment`: the default policy, and the reason of each target.
- `pools`: the nodes with one type of device, and the roles that share them.
- `sized_roles`: the sizes that are worth most, by pool.
- `floor`: the free room of nodes while it is decided which roles lie where.
- `gathering`: how far roles may grow without lying on more nodes than they need.
- `moves`: which jobs are placed anew, on fewer nodes.
- `goodput`: the policy that gives devices to the jobs that finish soonest by them.
"""

from __future__ import annotations

from collections.abc import Mapping

from swell.autoscaler.policies.fulfillment import fulfillment
from swell.autoscaler.policies.goodput import goodput
from swell.autoscaler.policies.interface import Policy

DEFAULT = "fulfillment"
GOODPUT = "goodput"
POLICIES: Mapping[str, Policy] = {DEFAULT: fulfillment, GOODPUT: goodput}
