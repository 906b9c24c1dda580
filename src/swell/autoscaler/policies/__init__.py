"""The policies that choose sizes, by name. A policy is a pure function from jobs and cluster.

- `interface`: the arguments and results of every policy.
- `room`: the part of the cluster that is still free while a plan is made.
- `dry_run`: rounds of single steps up and down, computed many at a time.
- `fulfillment`: the default policy, and the reason of each target.
"""

from __future__ import annotations

from collections.abc import Mapping

from swell.autoscaler.policies.fulfillment import fulfillment
from swell.autoscaler.policies.interface import Policy

DEFAULT = "fulfillment"
POLICIES: Mapping[str, Policy] = {DEFAULT: fulfillment}
