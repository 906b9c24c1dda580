"""The rules of a built-in kind: its schema, and the functions in which it differs from others.

The order of a write is kube-apiserver's: decode, default, prepare, validate. `prepare` sets the
fields that the server decides and the caller may not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias, cast

from swell.api.meta import Body
from swell.cluster.embedded import refusals
from swell.cluster.embedded.builtin import definitions
from swell.cluster.embedded.registry import WriteContext
from swell.schema.decode import DecodeError
from swell.schema.field_errors import FieldError

Default: TypeAlias = Callable[[Body], None]
Prepare: TypeAlias = Callable[[Body, Body | None, WriteContext], None]
Errors: TypeAlias = Callable[[Body, Body | None, WriteContext], Iterable[FieldError]]
Warnings: TypeAlias = Callable[[Body, Body | None], Iterable[str]]
Grows: TypeAlias = Callable[[Body, Body], bool]


def _nothing(*_: object) -> None:
    pass


def _no_errors(_new: Body, _old: Body | None, _context: WriteContext) -> Iterable[FieldError]:
    return ()


def _no_warnings(_new: Body, _old: Body | None) -> Iterable[str]:
    return ()


def spec_changed(new: Body, old: Body) -> bool:
    return bool(new.get("spec") != old.get("spec"))


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The functions in which a kind differs from others. Writes of /status have their own."""

    default: Default = _nothing  # sets values computed from others, on every write
    prepare: Prepare = _nothing  # sets what the server decides; not for /status
    errors: Errors = _no_errors  # for writes of the object itself
    status_errors: Errors = _no_errors  # for writes of /status
    prepare_status: Prepare = _nothing
    grows: Grows = spec_changed  # whether a write raises metadata.generation
    warnings: Warnings = _no_warnings  # of objects that are valid but unwise; not for /status
    # The path of the part that is not looked at, since another part is wrong.
    hidden: Callable[[Body], str] = lambda _new: ""
    keeps_status: bool = False  # whether a status given on create is kept


class BuiltinRules:
    """The `Rules` of a kind, from the name of its definition and its behaviour."""

    def __init__(self, definition: str, behaviour: Behaviour) -> None:
        self._decode = definitions.decoders().of(definition)
        self._enums = definitions.enum_checks().of(definition)
        self._behaviour = behaviour
        self._has_status = "status" in definitions.schemas()[definition]["properties"]

    def shape(self, body: Body, context: WriteContext) -> Body:
        unknown: list[str] = []
        # Fields that are known not to differ from the stored ones are not decoded again.
        kept = {field: body.pop(field) for field in sorted(context.unchanged)}
        try:
            shaped = cast("Body", self._decode(body, None, unknown)) | kept
        except DecodeError as error:
            raise refusals.unreadable_body(context.verb, str(error), context.kind) from error
        report_unknown(unknown, context)
        self._behaviour.default(shaped)
        return shaped

    def prepare(self, new: Body, old: Body | None, context: WriteContext) -> None:
        if context.subresource == "status" and old is not None:
            # Everything but metadata and status stays as it is stored.
            for field in [field for field in new if field not in {"metadata", "status"}]:
                del new[field]
            for field, value in old.items():
                if field not in {"metadata", "status"}:
                    new[field] = value
            self._behaviour.prepare_status(new, old, context)
            return
        if self._has_status:
            self._settle_status(new, old)
        self._behaviour.prepare(new, old, context)

    def _settle_status(self, new: Body, old: Body | None) -> None:
        """Keep the stored status: only a write of /status changes it."""
        if old is not None:
            new["status"] = old.get("status", {})
        elif not self._behaviour.keeps_status:
            empty = cast("Body", self._decode({}, None, []))
            new["status"] = empty.get("status", {})

    def validate(self, new: Body, old: Body | None, context: WriteContext) -> list[FieldError]:
        if context.subresource == "status":
            return list(self._behaviour.status_errors(new, old, context))
        errors: list[FieldError] = []
        # An unchanged spec was valid when it was stored.
        unchanged = old is not None and "spec" in new and not spec_changed(new, old)
        if self._enums is not None and not unchanged:
            self._enums(new, None, errors)
            hidden = self._behaviour.hidden(new)
            errors = [one for one in errors if not (hidden and one.field.startswith(hidden))]
        errors += self._behaviour.errors(new, old, context)
        if not errors and not context.metadata_errors:
            context.warnings.extend(self._behaviour.warnings(new, old))
        return errors

    def grows_generation(self, new: Body, old: Body) -> bool:
        return self._behaviour.grows(new, old)


def report_unknown(unknown: list[str], context: WriteContext) -> None:
    """Refuse or warn of the fields that decoding dropped, as the caller's fieldValidation says."""
    if not unknown or context.field_validation == "Ignore":
        return
    messages = [f'unknown field "{field}"' for field in unknown]
    if context.field_validation == "Strict":
        raise refusals.strict_decoding(context.verb, messages, context.kind)
    context.warnings.extend(messages)
