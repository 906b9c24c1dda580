"""The policies by name. A policy is a pure function from jobs and cluster to targets."""

from __future__ import annotations

from collections.abc import Mapping

from swell.autoscaler.policies.fulfillment import fulfillment
from swell.autoscaler.policies.interface import Policy

DEFAULT = "fulfillment"
POLICIES: Mapping[str, Policy] = {DEFAULT: fulfillment}
