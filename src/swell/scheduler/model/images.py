"""Which nodes have which container images, for the score that prefers those that have a pod's."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from swell.api.core import NodeImage
from swell.scheduler.model.resources import Places, Vector


class NodeImages:
    """The images of all nodes by name. What it costs follows the changes, not the nodes."""

    def __init__(self) -> None:
        self._of_node: dict[str, tuple[NodeImage, ...]] = {}
        self._sizes: dict[str, dict[str, int]] = {}  # image -> node -> bytes
        # By image: the layout of the nodes for which they are right, places and bytes.
        self._holders: dict[str, tuple[int, Places, Vector]] = {}

    def put(self, node: str, images: tuple[NodeImage, ...]) -> None:
        """Replaces the images of a node; without any it is forgotten."""
        old = self._of_node.get(node, ())
        if old == images:
            return
        for name, _ in _named(old):
            if self._sizes.get(name, {}).pop(node, None) is not None and not self._sizes[name]:
                del self._sizes[name]
            self._holders.pop(name, None)
        for name, size in _named(images):
            self._sizes.setdefault(name, {})[node] = size
            self._holders.pop(name, None)
        if images:
            self._of_node[node] = images
        else:
            self._of_node.pop(node, None)

    def holders(
        self, image: str, layout: int, find: Callable[[str], int]
    ) -> tuple[Places, Vector] | None:
        """Returns the places of the nodes that have an image, and its bytes there; None if none.

        `find` returns a node's place. Places are remembered until `layout` is another number.
        """
        sizes = self._sizes.get(image)
        if sizes is None:
            return None
        known = self._holders.get(image)
        if known is None or known[0] != layout:
            places = np.array([find(node) for node in sizes], dtype=np.intp)
            known = (layout, places, np.array(list(sizes.values()), dtype=np.float64))
            self._holders[image] = known
        return known[1], known[2]


def _named(images: Iterable[NodeImage]) -> Iterable[tuple[str, int]]:
    return ((name, image.size_bytes) for image in images for name in image.names or ())
