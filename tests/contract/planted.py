"""Bugs to plant in the embedded server, one switch each, and the subject that must notice.

Each is a plausible mistake. They live here and nowhere in the product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from swell.api.meta import Key
from swell.cluster.embedded import selectors
from swell.cluster.embedded.controllers.garbage import GarbageCollector
from swell.cluster.embedded.customresources.kinds import CustomRules
from swell.cluster.embedded.selectors import LabelRequirements, Requirement
from swell.cluster.embedded.storage import Commit, Storage
from swell.cluster.embedded.verbs import deleting, podverbs
from swell.cluster.embedded.verbs.core import ServerCore
from swell.cluster.embedded.verbs.podverbs import PodVerbs
from swell.cluster.embedded.verbs.reading import ReadVerbs
from swell.cluster.embedded.verbs.watching import Watch
from swell.cluster.embedded.verbs.writing import WriteVerbs
from swell.runtime.cluster import EventType

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Bug:
    name: str
    subject: str
    plant: Plant

    def __str__(self) -> str:
        return self.name


BUGS: list[Bug] = []


def bug(subject: str) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        BUGS.append(Bug(plant.__name__, subject, plant))
        return plant

    return register


def nothing(*_: object, **__: object) -> None:
    """Does not do what it should."""


@bug("updating")
def stale_version_is_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WriteVerbs, "_check_version", nothing)


@bug("generations")
def generation_grows_on_status_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CustomRules, "grows_generation", lambda _self, _new, _old: True)


@bug("generations")
def generation_never_grows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CustomRules, "grows_generation", lambda _self, _new, _old: False)


@bug("watching")
def watch_repeats_an_event_on_resume(patch: pytest.MonkeyPatch) -> None:
    follow, init = Storage.follow, Watch.__init__

    def begin(self: Watch, *args: Any, since: int, **more: Any) -> None:
        init(self, *args, since=since - 1, **more)

    patch.setattr(Storage, "follow", lambda self, name, version: follow(self, name, version - 1))
    patch.setattr(Watch, "__init__", begin)


@bug("watching")
def watch_skips_an_event_on_resume(patch: pytest.MonkeyPatch) -> None:
    follow = Storage.follow
    patch.setattr(Storage, "follow", lambda self, name, version: follow(self, name, version + 1))


@bug("watching")
def deleted_event_has_the_old_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Commit, "last", property(lambda self: self.before))


@bug("watching")
def leaving_a_selection_goes_unnoticed(patch: pytest.MonkeyPatch) -> None:
    event = Watch._event

    def blind(self: Watch, commit: Commit) -> Any:
        seen = event(self, commit)
        left = seen is not None and seen.type is EventType.DELETED and commit.after is not None
        return None if left else seen

    patch.setattr(Watch, "_event", blind)


@bug("finalizers")
def finalizers_are_ignored(patch: pytest.MonkeyPatch) -> None:
    plan = deleting.plan_deletion

    def careless(kind: Any, body: Any, options: Any, now: float) -> Any:
        body["metadata"].pop("finalizers", None)
        return plan(kind, body, options, now)

    patch.setattr(deleting, "plan_deletion", careless)


@bug("deleting")
def uid_precondition_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deleting, "_check_preconditions", nothing)


@bug("deleting")
def grace_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deleting, "_first_grace_s", lambda _body, _grace_s: 0)


@bug("selectors")
def comparison_is_off_by_one(patch: pytest.MonkeyPatch) -> None:
    def shifted(requirement: Requirement) -> Requirement:
        step = {"<": 1, ">": -1}.get(requirement.operator)
        if step is None:
            return requirement
        return requirement._replace(values=(str(int(requirement.values[0]) + step),))

    _change_requirements(patch, shifted)


@bug("selectors")
def absent_label_does_not_differ(patch: pytest.MonkeyPatch) -> None:
    matches = LabelRequirements.matches

    def strict(self: LabelRequirements, labels: Any) -> bool:
        negated = (one.key for one in self.requirements if one.operator == "notin")
        return all(key in labels for key in negated) and matches(self, labels)

    patch.setattr(LabelRequirements, "matches", strict)


def _change_requirements(
    patch: pytest.MonkeyPatch, change: Callable[[Requirement], Requirement]
) -> None:
    prepare = LabelRequirements.__post_init__

    def changed(self: LabelRequirements) -> None:
        object.__setattr__(self, "requirements", tuple(map(change, self.requirements)))
        prepare(self)

    patch.setattr(LabelRequirements, "__post_init__", changed)
    # Selectors that were parsed meanwhile must not stay.
    patch.setattr(selectors, "_cached_labels", selectors._parsed_labels)


@bug("custom")
def pruning_is_lost(patch: pytest.MonkeyPatch) -> None:
    shape = CustomRules.shape

    def generous(self: CustomRules, body: Any, context: Any) -> Any:
        spec = dict(body.get("spec") or {})
        shaped = shape(self, body, context)
        if isinstance(shaped.get("spec"), dict):
            shaped["spec"] = {**spec, **shaped["spec"]}
        return shaped

    patch.setattr(CustomRules, "shape", generous)


@bug("custom")
def cel_is_skipped_on_update(patch: pytest.MonkeyPatch) -> None:
    validate = CustomRules.validate

    def lazy(self: CustomRules, new: Any, old: Any, context: Any) -> Any:
        rules = self._rules
        self._rules = rules if old is None else None
        try:
            return validate(self, new, old, context)
        finally:
            self._rules = rules

    patch.setattr(CustomRules, "validate", lazy)


@bug("custom")
def transition_rules_see_no_old_object(patch: pytest.MonkeyPatch) -> None:
    validate = CustomRules.validate
    patch.setattr(
        CustomRules, "validate", lambda self, new, old, context: validate(self, new, None, context)
    )


@bug("statuses")
def status_writes_reach_the_spec(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CustomRules, "prepare", nothing)


@bug("listing")
def pages_are_not_one_snapshot(patch: pytest.MonkeyPatch) -> None:
    def now(self: Storage, collection: str, namespace: str, _version: int) -> Any:
        return self.list(collection, namespace)

    patch.setattr(Storage, "list_at", now)


@bug("listing")
def page_has_one_too_many(patch: pytest.MonkeyPatch) -> None:
    page = ReadVerbs._page

    def long(self: ReadVerbs, kind: Any, chosen: Any, snapshot: Any, after: Any, limit: int) -> Any:
        return page(self, kind, chosen, snapshot, after, limit + 1 if limit else 0)

    patch.setattr(ReadVerbs, "_page", long)


@bug("creating")
def taken_name_is_overwritten(patch: pytest.MonkeyPatch) -> None:
    create = WriteVerbs._create

    def over(self: WriteVerbs, kind: Any, namespace: str, body: Any, context: Any) -> Any:
        key = Key(namespace, body["metadata"].get("name", ""))
        stored = self._core.find(kind, key)
        if stored is not None:
            self._core.remove(kind, key, stored, context)
        return create(self, kind, namespace, body, context)

    patch.setattr(WriteVerbs, "_create", over)


@bug("creating")
def namespace_is_not_looked_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WriteVerbs, "_check_namespace", nothing)


@bug("creating")
def generated_names_repeat(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WriteVerbs, "_free_name", lambda _self, _kind, _ns, prefix: f"{prefix}aaaaa")


@bug("binding")
def pod_is_bound_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(podverbs, "_binding_problem", lambda _pod: "")


@bug("eviction")
def budget_is_not_charged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PodVerbs, "_charge", nothing)


@bug("dryrun")
def dry_run_is_kept(patch: pytest.MonkeyPatch) -> None:
    context = ServerCore.context

    def real(self: ServerCore, *args: Any, **more: Any) -> Any:
        made = context(self, *args, **more)
        made.dry_run = False
        return made

    patch.setattr(ServerCore, "context", real)


@bug("garbage")
def orphans_are_deleted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GarbageCollector, "_orphan_dependents", GarbageCollector._delete_dependents)


@bug("garbage")
def dependents_are_left_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GarbageCollector, "_handle_dependent", nothing)
