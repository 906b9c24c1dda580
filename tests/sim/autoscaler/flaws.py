"""Bugs planted in the autoscaler: rules that are not kept must be found out."""

from __future__ import annotations

from collections.abc import Callable

from swell.autoscaler.loop import Autoscaler

# Plants a bug in an autoscaler that has been put together and does not run yet.
Flaw = Callable[[Autoscaler], None]
