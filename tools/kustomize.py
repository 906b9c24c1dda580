"""Renders the kustomizations of this repository, without kubectl: what a release's one file holds.

It knows what `deploy/kustomization.yaml` uses: resources, a namespace, images, and a generator of
ConfigMaps. Anything else in a kustomization is refused, so that nothing is left out in silence; a
test compares the outcome with that of `kubectl kustomize`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

FILE = "kustomization.yaml"
# Kinds that belong to no namespace, among those that are installed.
OF_CLUSTER = frozenset(
    {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace"}
)
KNOWN = frozenset(
    {
        *("apiVersion", "kind", "resources", "namespace", "images"),
        *("configMapGenerator", "generatorOptions"),
    }
)
# Names that keep their meaning: kustomize adds a digest of the content otherwise.
PLAIN_NAMES = {"disableNameSuffixHash": True}

Object = dict[str, Any]


class KustomizationError(Exception):
    """A kustomization uses what is not known here; the text names it."""


def render(folder: Path) -> list[Object]:
    """Return the objects of a folder's kustomization, in the order in which they are named."""
    wanted = yaml.safe_load((folder / FILE).read_text())
    unknown = sorted(wanted.keys() - KNOWN)
    if unknown:
        raise KustomizationError(f"{folder / FILE}: {', '.join(unknown)}")
    objects = [found for name in wanted.get("resources", ()) for found in _resource(folder / name)]
    if "configMapGenerator" in wanted and wanted.get("generatorOptions") != PLAIN_NAMES:
        raise KustomizationError(f"{folder / FILE}: generatorOptions")
    objects += [_config_map(folder, one) for one in wanted.get("configMapGenerator", ())]
    if "namespace" in wanted:
        for found in objects:
            _place(found, wanted["namespace"])
    for image in wanted.get("images", ()):
        for found in objects:
            _name_image(found, image)
    return objects


def to_yaml(objects: Iterable[Object]) -> str:
    """Return objects as one file, in an order in which a server can take them one by one."""
    first = {"Namespace": 0, "CustomResourceDefinition": 1}
    ordered = sorted(objects, key=lambda found: first.get(found["kind"], len(first)))
    return yaml.safe_dump_all(ordered, sort_keys=False, width=100, explicit_start=True)


def _resource(path: Path) -> list[Object]:
    if path.is_dir():
        return render(path)
    return [found for found in yaml.safe_load_all(path.read_text()) if found is not None]


def _config_map(folder: Path, wanted: Object) -> Object:
    if unknown := wanted.keys() - {"name", "files"}:
        raise KustomizationError(f"{folder / FILE}: {', '.join(sorted(unknown))}")
    data = {name: (folder / name).read_text() for name in wanted["files"]}
    metadata = {"name": wanted["name"]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _place(found: Object, namespace: str) -> None:
    """Put an object, and the accounts that a binding names, into a namespace."""
    if found["kind"] not in OF_CLUSTER:
        found["metadata"]["namespace"] = namespace
    for subject in found.get("subjects", ()):
        if subject["kind"] == "ServiceAccount":
            subject["namespace"] = namespace


def _name_image(found: Object, image: Object) -> None:
    pod = found.get("spec", {}).get("template", {}).get("spec", {})
    for container in (*pod.get("initContainers", ()), *pod.get("containers", ())):
        if container["image"].partition(":")[0] == image["name"]:
            container["image"] = f"{image['newName']}:{image['newTag']}"
