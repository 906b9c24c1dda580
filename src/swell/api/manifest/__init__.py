"""Reads manifests: YAML or JSON, several documents, lists; and knows the line of every field."""

from swell.api.manifest.documents import Document, Finding, Reading, read
from swell.api.manifest.findings import findings_of

__all__ = ["Document", "Finding", "Reading", "findings_of", "read"]
