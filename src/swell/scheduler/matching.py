"""Whether labels, taints and node fields satisfy what a pod asks for: the scheduler's way in."""

from __future__ import annotations

from swell.api.matching import (
    is_empty_selector,
    n_disliked,
    node_selector_matches,
    selector_matches,
    term_matches,
    tolerates,
    tolerates_all,
)

__all__ = [
    "is_empty_selector",
    "n_disliked",
    "node_selector_matches",
    "selector_matches",
    "term_matches",
    "tolerates",
    "tolerates_all",
]
