"""The served kinds, and the contract between the verbs and the rules of a kind.

A `ServedKind` is one version of one resource as clients see it. Several of them may share a stored
collection (a custom resource with two versions, events of two groups); then all but the stored one
have a conversion. This file knows no kind by name: the built-in ones are data, custom ones are
registered when their definition is stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from swell.api.meta import Body, Key
from swell.cluster.embedded.access.attributes import ADMIN, Identity
from swell.cluster.embedded.access.index import AccessIndex
from swell.schema.field_errors import FieldError

if TYPE_CHECKING:
    from swell.cluster.embedded.ownership.managers import Managers

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY = {None: 2, "beta": 1, "alpha": 0}


def version_rank(version: str) -> tuple[int, int, int]:
    """A sort key for versions, best last: v1 over v2beta1 over v1alpha1, as in Kubernetes."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (-1, 0, 0)
    return (_STABILITY[match[2]], int(match[1]), int(match[3] or 0))


@dataclass(slots=True)
class WriteContext:
    """The request of a write, as far as the rules of a kind may know it."""

    verb: str  # create | update | patch | delete
    now: float
    read: Callable[[str, Key], Body | None]  # another object, by collection; read only
    subresource: str = ""
    field_validation: str = ""  # Strict | Warn | Ignore; empty means Warn
    warnings: list[str] = field(default_factory=list)
    actor: str = ""
    dry_run: bool = False
    manager: str = ""  # the client, as the owner of the fields that it writes
    applied: Managers | None = None  # the managers after a server-side apply
    # Top-level fields that are equal to the stored ones. They were checked when they were stored,
    # so rules with a fixed schema skip them.
    unchanged: frozenset[str] = frozenset()
    # Iterates over a whole collection, so only for small ones.
    each: Callable[[str], Iterable[Body]] = lambda _collection: ()
    kind: ServedKind | None = None  # of the object that is written
    metadata_errors: list[FieldError] = field(default_factory=list)  # found before the rules run
    identity: Identity = ADMIN
    access: AccessIndex | None = None  # decides what the identity may grant to others
    collections_read: set[str] = field(default_factory=set)  # by `read` and `each`


class KindRules(Protocol):
    """The rules of one kind, called in this order on every write. They may change the new body.

    They must not change the old one, but may put parts of it into the new one without copying:
    it was read for this write alone.
    """

    def shape(self, body: Body, context: WriteContext) -> Body:
        """Check types and unknown fields, prune, set defaults; ClusterError (400 or 422)."""
        ...

    def prepare(self, new: Body, old: Body | None, context: WriteContext) -> None:
        """Set the fields that the server decides; reset those this subresource may not write."""
        ...

    def validate(self, new: Body, old: Body | None, context: WriteContext) -> list[FieldError]:
        """All errors of the new object, given the old one."""
        ...

    def grows_generation(self, new: Body, old: Body) -> bool:
        """Whether the desired state differs. Only called for kinds with a generation."""
        ...


class Conversion(Protocol):
    """A conversion between a served version and the stored one. It does not change its argument."""

    def to_stored(self, body: Body) -> Body: ...

    def from_stored(self, body: Body) -> Body: ...


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of the table that `kubectl get` prints; priority above 0 only with `-o wide`."""

    name: str
    json_path: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The paths of the fields behind the scale subresource; a kind may have no selector."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


class FieldPath(NamedTuple):
    """The path of a selectable field in the stored form, and the value of a missing field.

    `otherwise` is the path to look at where the first has nothing.
    """

    path: str
    absent: str = ""
    otherwise: str = ""


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
METADATA_FIELDS: Mapping[str, FieldPath] = {
    "metadata.name": FieldPath("metadata.name"),
    "metadata.namespace": FieldPath("metadata.namespace"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedKind:
    """One served version of a resource, with everything that the verbs treat by kind."""

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
    # What Go prints of an object without values, beside its kind and metadata. Bookmarks have it.
    empty: Mapping[str, Any] = field(default_factory=dict, repr=False)

    stored_as: str = ""  # collection, when it is not this resource's own
    conversion: Conversion | None = None  # None: this version is the stored one
    merge_schema: object | None = None  # a MergeSchema; None: strategic merge is unsupported
    schema: Body | None = field(default=None, repr=False)  # of a custom resource
    scale: ScalePaths | None = None

    has_generation: bool = True
    selectable_fields: Mapping[str, FieldPath] = field(default_factory=lambda: METADATA_FIELDS)
    unconditional_update: bool = True  # PUT without a version is accepted
    create_on_update: bool = False  # PUT of a missing object creates it
    default_propagation: str = "Background"
    name_rule: str = "subdomain"  # or "label", "label1035", "segment": see `objectmeta`
    metadata_last: bool = False  # errors of metadata are reported when there are no others
    is_review: bool = False  # objects are answered with a status, and never stored
    qualified_finalizers: bool = False  # finalizers need a domain, except well-known ones
    graceful: bool = False  # deletion waits for a grace period: pods
    deletion_finalizer: str = ""  # added when deletion begins; a controller cleans up
    returns_deleted: bool = False  # a finished delete returns the object, not a Status
    deprecation: str = ""  # the warning that every response about this kind carries
    ttl_s: float = 0.0  # objects expire this long after their last write; 0: never

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The resource with its group, such as `jobs.batch`; of the core group just `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def error_group(self) -> str:
        """The group that errors of objects name: that of the kind they are stored as."""
        return self.group if self.custom or not self.stored_as else self.stored_as.partition(".")[2]

    @property
    def collection(self) -> str:
        """Where objects of this kind are stored."""
        return self.stored_as or self.resource


class Registry:
    """The kinds served now, by path, by collection, and by an object's apiVersion and kind."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], ServedKind] = {}
        self._by_object: dict[tuple[str, str], ServedKind] = {}
        self._stored: dict[str, ServedKind] = {}
        self._builtin_groups: frozenset[str] = frozenset()
        self._routes: frozenset[tuple[str, ...]] = frozenset()
        self.revision = 0  # grows with every change, so that derived documents can be cached

    def add(self, kind: ServedKind) -> None:
        """Serve a kind, or replace the one served at its path."""
        self._by_path[kind.group, kind.version, kind.plural] = kind
        self._by_object[kind.api_version, kind.kind] = kind
        if kind.conversion is None and not kind.stored_as:
            self._stored[kind.collection] = kind
        self._changed()

    def remove(self, group: str, plural: str) -> None:
        """Stop serving all versions of a resource."""
        gone = [kind for kind in self if kind.group == group and kind.plural == plural]
        for kind in gone:
            del self._by_path[kind.group, kind.version, kind.plural]
            self._by_object.pop((kind.api_version, kind.kind), None)
            self._stored.pop(kind.collection, None)
        self._changed()

    def _changed(self) -> None:
        kinds = self._by_path.values()
        self._builtin_groups = frozenset(kind.group for kind in kinds if not kind.custom)
        self._routes = frozenset(path[:length] for path in self._by_path for length in (1, 2, 3))
        self.revision += 1

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        return self._by_path.get((group, version, plural))

    def is_routed(self, group: str, version: str, plural: str) -> bool:
        """Whether a path leads anywhere: in a group of custom kinds alone, to what is served."""
        parts = tuple(part for part in (group, version, plural) if part)
        return not group or group in self._builtin_groups or parts in self._routes

    def of_object(self, api_version: str, kind: str) -> ServedKind | None:
        """The kind that an object or an owner reference names."""
        return self._by_object.get((api_version, kind))

    def stored(self, collection: str) -> ServedKind | None:
        """The kind whose version is the stored one of a collection."""
        return self._stored.get(collection)

    def __iter__(self) -> Iterator[ServedKind]:
        """Iterates in the order of registration, so that discovery is stable."""
        return iter(list(self._by_path.values()))
