"""Reads manifests: YAML or JSON, several documents, lists; and knows the line of every field."""

from swell.api.manifest.documents import Document, Finding, ManifestFile, findings_of, read

__all__ = ["Document", "Finding", "ManifestFile", "findings_of", "read"]
