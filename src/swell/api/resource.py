"""Names a kind of API object, the path it is served at, and the struct it decodes to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from swell.api.meta import Body, ObjectMeta


class ApiObject(Protocol):
    """Any struct that stands for a whole API object: it has metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T_co]):
    """A served resource or, with `subresource` set, a subresource of it.

    Objects decode to `struct`; with `dict` they stay plain JSON.
    """

    group: str
    version: str
    kind: str
    plural: str
    struct: type[T_co]
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresource: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def status(self) -> Resource[T_co]:
        return replace(self, subresource="status")

    def sub(self, name: str, type_: type[S]) -> Resource[S]:
        """Returns a subresource whose objects have another type, such as `scale`."""
        return Resource(
            group=self.group,
            version=self.version,
            kind=self.kind,
            plural=self.plural,
            struct=type_,
            namespaced=self.namespaced,
            short_names=self.short_names,
            subresource=name,
        )

    def untyped(self) -> Resource[Body]:
        """Returns the same resource with objects as plain JSON, so that every field is kept."""
        return replace(self, struct=dict)  # type: ignore[arg-type, return-value]

    def path(self, namespace: str = "", name: str = "") -> str:
        """Returns the URL path of the collection, of one object, or of its subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        tail = f"/{name}" if name else ""
        sub = f"/{self.subresource}" if self.subresource else ""
        return f"{root}{scope}/{self.plural}{tail}{sub}"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural
