"""The CustomResourceDefinitions of our kinds, generated from their schemas.

`python -m swell.api.crds DIRECTORY` writes them as YAML, one file a kind, always the same bytes.
"""

from swell.api.crds.generate import crd, crd_file_name, crd_yaml
from swell.api.schemas.definitions import DEFINITIONS, Column, Definition

__all__ = ["DEFINITIONS", "Column", "Definition", "crd", "crd_file_name", "crd_yaml"]
