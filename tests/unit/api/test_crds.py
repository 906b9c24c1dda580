"""The generated CRDs: checked in, current, and the same bytes wherever they are made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from swell.api.crds import crd, crd_file_name, crd_yaml, main
from swell.api.schemas.definitions import DEFINITIONS, Definition
from swell.api.schemas.shared import REPLICAS_MAX

DEPLOYED = Path(__file__).parents[3] / "deploy" / "crds"


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.kind)
def test_checked_in_file_is_current(definition: Definition) -> None:
    """`python -m swell.api.crds deploy/crds` changes nothing."""
    text = (DEPLOYED / crd_file_name(definition)).read_text()

    assert text == crd_yaml(definition)
    assert yaml.safe_load(text) == crd(definition)


def test_no_other_file_is_checked_in() -> None:
    """A kind that is gone leaves no file behind, and kustomize applies those that are there."""
    files = {crd_file_name(definition) for definition in DEFINITIONS}
    listed = yaml.safe_load((DEPLOYED / "kustomization.yaml").read_text())["resources"]

    assert {path.name for path in DEPLOYED.iterdir()} == {*files, "kustomization.yaml"}
    assert set(listed) == files


def test_generation_is_deterministic() -> None:
    """The order of sets and hashes does not reach the files."""
    outputs = {
        subprocess.run(
            [sys.executable, "-m", "swell.api.crds"],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(outputs) == 1


def test_command_writes_the_files(tmp_path: Path) -> None:
    """Given a directory, the command fills it with one file a kind."""
    main([str(tmp_path / "new")])

    written = {path.name: path.read_text() for path in (tmp_path / "new").iterdir()}
    assert written == {path.name: path.read_text() for path in DEPLOYED.glob("*_*.yaml")}


def walked(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schema and all schemas in it."""
    inner = [*schema.get("properties", {}).values()]
    inner += [schema[name] for name in ("items", "additionalProperties") if name in schema]
    return [schema, *(part for one in inner for part in walked(one))]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.kind)
def test_everything_is_bounded(definition: Definition) -> None:
    """Lists, maps and texts have a greatest size, so that rules have a greatest cost."""
    for version in crd(definition)["spec"]["versions"]:
        for schema in walked(version["schema"]["openAPIV3Schema"]):
            if schema.get("type") == "array":
                assert "maxItems" in schema
            if "additionalProperties" in schema:
                assert "maxProperties" in schema
            if schema.get("type") == "string" and "enum" not in schema and "format" not in schema:
                assert "maxLength" in schema


def _properties(schema: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    """All fields in a schema, by their paths."""
    found = [(f"{path}.{name}", part) for name, part in schema.get("properties", {}).items()]
    inner = [*found]
    inner += [(path, schema[name]) for name in ("items", "additionalProperties") if name in schema]
    return [*found, *(below for where, part in inner for below in _properties(part, where))]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.kind)
def test_every_field_is_described(definition: Definition) -> None:
    """`kubectl explain` has a sentence for each; a server describes `metadata` by itself."""
    for version in crd(definition)["spec"]["versions"]:
        root = version["schema"]["openAPIV3Schema"]
        silent = [path for path, part in _properties(root, "") if not part.get("description")]

        assert silent == [".metadata"]
        assert root["description"]
        assert all(column["description"] for column in version["additionalPrinterColumns"])


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.kind)
def test_server_side_apply_knows_how_to_merge_every_list(definition: Definition) -> None:
    """Each list is of a type, and a list of the type map has fields that its items must have."""
    for version in crd(definition)["spec"]["versions"]:
        for schema in walked(version["schema"]["openAPIV3Schema"]):
            if schema.get("type") == "array":
                keys = schema.get("x-kubernetes-list-map-keys", [])
                assert schema["x-kubernetes-list-type"] == ("map" if keys else "atomic")
                assert set(keys) <= set(schema["items"].get("required", ()))


def test_older_versions_are_deprecated() -> None:
    """Whoever uses one is told by every client which to use; both have one schema."""
    said = {
        f"{one.kind} {version['name']}": version.get("deprecationWarning")
        for one in DEFINITIONS
        for version in crd(one)["spec"]["versions"]
        if version.get("deprecated")
    }

    assert said == {
        "TrainingJob v1alpha1": "paddlepaddle.org/v1alpha1 TrainingJob is deprecated;"
        " use paddlepaddle.org/v1 TrainingJob"
    }


def test_kinds_are_found_together() -> None:
    """`kubectl get swell` lists them all, and `kubectl get all` has jobs in it."""
    categories = {one.kind: crd(one)["spec"]["names"]["categories"] for one in DEFINITIONS}

    assert all("swell" in named for named in categories.values())
    assert {kind for kind, named in categories.items() if "all" in named} == {
        "AITrainingJob", "TrainingJob",
    }  # fmt: skip


def test_columns_are_the_ones_people_know() -> None:
    """`kubectl get aitj` shows phase, readiness, restarts, queue, age and reason; wide, more."""
    job = crd(DEFINITIONS[0])["spec"]
    columns = job["versions"][0]["additionalPrinterColumns"]

    assert job["names"]["shortNames"] == ["aitj"]
    assert [column["name"] for column in columns if "priority" not in column] == [
        "PHASE", "READY", "RESTARTS", "QUEUE", "AGE", "REASON",
    ]  # fmt: skip
    assert [column["name"] for column in columns if column.get("priority") == 1] == [
        "MESSAGE", "PROGRESS", "RATE", "ETA", "STARTS-AFTER", "STARTS-BY",
    ]  # fmt: skip


def test_training_job_has_both_versions_with_one_schema() -> None:
    """Old and new manifests are served alike; the newer version is stored."""
    old, new = crd(DEFINITIONS[1])["spec"]["versions"]

    assert (old["name"], new["name"]) == ("v1alpha1", "v1")
    assert old["schema"] == new["schema"]
    assert (old["storage"], new["storage"]) == (False, True)
    assert old["served"]


def test_every_kind_has_a_status_of_its_own() -> None:
    """Status is written apart from spec, and shared kinds are called as Volcano has them."""
    assert [definition.name for definition in DEFINITIONS] == [
        "aitrainingjobs.elasticdeeplearning.ai",
        "trainingjobs.paddlepaddle.org",
        "podgroups.scheduling.volcano.sh",
        "queues.scheduling.volcano.sh",
        "hypernodes.topology.volcano.sh",
    ]
    for definition in DEFINITIONS:
        for version in crd(definition)["spec"]["versions"]:
            assert version["subresources"]["status"] == {}


@pytest.mark.parametrize("field", ["replicas", "minReplicas"])
def test_sizes_of_roles_are_bounded(field: str) -> None:
    """Every pass of a controller goes over all pods, so that a billion would be its end."""
    crd = yaml.safe_load(crd_yaml(next(d for d in DEFINITIONS if d.kind == "AITrainingJob")))
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    role = spec["properties"]["replicaSpecs"]["additionalProperties"]

    assert role["properties"][field]["maximum"] == REPLICAS_MAX
    assert "maximum" not in role["properties"]["maxReplicas"]
