"""The served kinds, and the contract between the verbs and what is particular to a kind.

A `Kind` is one version of one resource as clients see it. Several of them may show the same stored
collection (a custom resource with two versions, events of two groups); then all but the one that
is stored carry a conversion. This file knows no kind by name: the built-in ones are data, custom
ones are registered when their definition is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from swell.api.meta import Body, Key
from swell.schema.field_errors import FieldError


@dataclass(slots=True)
class WriteContext:
    """What rules may know about the request beside the object itself."""

    verb: str  # create | update | patch | delete
    now: float
    read: Callable[[str, Key], Body | None]  # another object, by collection; not to be changed
    subresource: str = ""
    field_validation: str = ""  # Strict | Warn | Ignore; empty means Warn
    warnings: list[str] = field(default_factory=list)
    actor: str = ""
    dry_run: bool = False
    # Parts of the object that are as they were stored: shaped already, and not looked at again
    # by rules whose schema cannot have changed since.
    unchanged: frozenset[str] = frozenset()
    # Every object of a collection; for collections that are small.
    each: Callable[[str], Iterable[Body]] = lambda _collection: ()


class KindRules(Protocol):
    """What is particular to a kind. The new body is the rules' to change, the old one is not.

    The old one was read for this write alone: parts of it may be taken into the new one as is.
    """

    def shape(self, body: Body, context: WriteContext) -> Body:
        """Check types and unknown fields, prune, fill defaults; ClusterError (400 or 422)."""
        ...

    def prepare(self, new: Body, old: Body | None, context: WriteContext) -> None:
        """Compute what the server decides, and undo what this subresource may not touch."""
        ...

    def validate(self, new: Body, old: Body | None, context: WriteContext) -> list[FieldError]:
        """Everything wrong with the new object, given the old one."""
        ...

    def grows_generation(self, new: Body, old: Body) -> bool:
        """Whether the difference is one of desired state. Asked only of kinds with generation."""
        ...


class Conversion(Protocol):
    """Between a served version and the stored one. Neither changes what it is given."""

    def to_stored(self, body: Body) -> Body: ...

    def from_stored(self, body: Body) -> Body: ...


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of the table `kubectl get` prints; priority above 0 shows only when wide."""

    name: str
    json_path: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a kind keeps what its scale subresource shows; the selector may be missing."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


class FieldPath(NamedTuple):
    """Where a selectable field is in the object, and what it counts as when it is missing."""

    path: str
    absent: str = ""


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
METADATA_FIELDS: Mapping[str, FieldPath] = {
    "metadata.name": FieldPath("metadata.name"),
    "metadata.namespace": FieldPath("metadata.namespace"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedKind:
    """One served version of a resource."""

    group: str
    version: str
    kind: str
    plural: str
    rules: KindRules
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    verbs: tuple[str, ...] = ALL_VERBS
    columns: tuple[TableColumn, ...] = ()
    custom: bool = False

    stored_as: str = ""  # collection, when it is not this resource's own
    conversion: Conversion | None = None  # None: this version is the stored one
    merge_schema: object | None = None  # what strategic merge needs to know; None: unsupported
    scale: ScalePaths | None = None

    has_generation: bool = True
    selectable_fields: Mapping[str, FieldPath] = field(default_factory=lambda: METADATA_FIELDS)
    unconditional_update: bool = True  # PUT without a version is accepted
    create_on_update: bool = False  # PUT of a missing object creates it
    default_propagation: str = "Background"
    name_rule: str = "subdomain"  # or "label", "label1035", "segment": see `objectmeta`
    qualified_finalizers: bool = False  # finalizers need a domain, but for the well-known ones
    graceful: bool = False  # deletion waits for a grace period: pods
    deletion_finalizer: str = ""  # added when deletion begins, for who cleans up after it
    returns_deleted: bool = False  # a finished delete is answered with the object, not a Status
    ttl_s: float = 0.0  # objects vanish this long after their last write; 0: never

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`pods`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def collection(self) -> str:
        """Where objects of this kind are stored."""
        return self.stored_as or self.resource


class Registry:
    """The kinds served now, found by address, by collection or by what an owner reference names."""

    def __init__(self) -> None:
        self._by_address: dict[tuple[str, str, str], ServedKind] = {}
        self._by_object: dict[tuple[str, str], ServedKind] = {}
        self._stored: dict[str, ServedKind] = {}
        self.revision = 0  # grows with every change, for whoever caches what it computed

    def add(self, kind: ServedKind) -> None:
        """Serve a kind, or replace what is served at its address."""
        self._by_address[kind.group, kind.version, kind.plural] = kind
        self._by_object[kind.api_version, kind.kind] = kind
        if kind.conversion is None and not kind.stored_as:
            self._stored[kind.collection] = kind
        self.revision += 1

    def remove(self, group: str, plural: str) -> None:
        """Serve no version of a resource any more."""
        gone = [kind for kind in self if kind.group == group and kind.plural == plural]
        for kind in gone:
            del self._by_address[kind.group, kind.version, kind.plural]
            self._by_object.pop((kind.api_version, kind.kind), None)
            self._stored.pop(kind.collection, None)
        self.revision += 1

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        return self._by_address.get((group, version, plural))

    def of_object(self, api_version: str, kind: str) -> ServedKind | None:
        """The kind an object or an owner reference names."""
        return self._by_object.get((api_version, kind))

    def stored(self, collection: str) -> ServedKind | None:
        """The kind whose version is the stored one of a collection."""
        return self._stored.get(collection)

    def __iter__(self) -> Iterator[ServedKind]:
        """In the order of registration, so that discovery is stable."""
        return iter(list(self._by_address.values()))
