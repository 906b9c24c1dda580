"""Names one kind of API object, where it is served, and the struct its objects decode to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from swell.api.meta import Body, ObjectMeta


class ApiObject(Protocol):
    """Anything with metadata: every struct that stands for a whole API object."""

    @property
    def metadata(self) -> ObjectMeta: ...


T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T_co]):
    """A served resource; with `subresource` set, that subresource of it.

    `struct` is what objects decode to; `dict` where they are wanted as they are.
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
        """A subresource that answers with objects of another type, such as `scale`."""
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
        """The same resource with objects as plain JSON, every field kept."""
        return replace(self, struct=dict)  # type: ignore[arg-type, return-value]

    def path(self, namespace: str = "", name: str = "") -> str:
        """The URL path of the collection, of one object, or of its subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        tail = f"/{name}" if name else ""
        sub = f"/{self.subresource}" if self.subresource else ""
        return f"{root}{scope}/{self.plural}{tail}{sub}"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural
