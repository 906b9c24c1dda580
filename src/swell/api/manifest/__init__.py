"""Reads manifest files, YAML or JSON, and knows the line of every field. In reading order:

- `documents`: splits a file into objects, and validates them.
- `composer`: builds JSON values from YAML, with the lines of their fields.
- `yamldata`: reads other YAML, such as bodies and configuration, with budgets.
- `scalars`: the value of an unquoted word, as kubectl reads it.
- `defaulting`: writes defaults out.
"""

from swell.api.manifest.documents import Document, Finding, ManifestFile, findings_of, read

__all__ = ["Document", "Finding", "ManifestFile", "findings_of", "read"]
