"""An object that is nested more deeply than Python reads hides no other."""

from __future__ import annotations

import json

import pytest

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import TooDeepError, decode
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Key
from swell.cluster.decoding import decode_answer, decode_event, decode_list
from swell.cluster.nesting import DEPTH_MAX, cut, is_deep
from swell.runtime.cluster import EventType
from swell.runtime.errors import MalformedError

PLAIN = AI_TRAINING_JOBS.untyped()
# More than any Python reads: 3.13 reads 10,000, earlier ones 1,000 to 1,500.
UNREADABLE = 20_000
FORMS = {"lists": ("[", "]"), "objects": ('{"a":', "}"), "both": ('[{"]}\\"":', "}]")}


def nested(form: str, levels: int) -> str:
    begin, end = FORMS[form]
    return begin * levels + "1" + end * levels


def job(name: str, deep: str = "1") -> str:
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "7"}
    body = {"metadata": meta, "spec": {"replicaSpecs": {"trainer": {"template": {"x": "DEEP"}}}}}
    return json.dumps(body).replace('"DEEP"', deep)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("levels", [1_000, 9_900, UNREADABLE])
def test_deep_object_hides_no_other_of_its_list(form: str, levels: int) -> None:
    """It is read without its deepest levels."""
    items = ", ".join((job("ant"), job("deep", nested(form, levels)), job("bee")))
    raw = f'{{"metadata": {{"resourceVersion": "9"}}, "items": [{items}]}}'.encode()
    if levels == UNREADABLE:
        with pytest.raises(TooDeepError):
            decode(raw, dict)
    found = decode_list(raw, AI_TRAINING_JOBS)

    assert [one.metadata.name for one in found.items] == ["ant", "deep", "bee"]
    assert found.malformed == ()
    assert found.resource_version == "9"


@pytest.mark.parametrize("form", FORMS)
def test_deep_object_ends_no_watch(form: str) -> None:
    """Its event names it, whether or not the watcher knows its states."""
    line = f'{{"type": "MODIFIED", "object": {job("deep", nested(form, 5_000))}}}'.encode()
    for is_known in (None, lambda *_: False):
        event = decode_event(line, AI_TRAINING_JOBS, is_known)

        assert event.type is EventType.MODIFIED
        assert isinstance(event.object, AITrainingJob)
        assert event.object.metadata.key == Key("team", "deep")


def test_deep_answer_is_read() -> None:
    """A write whose answer is too deep has happened all the same."""
    found = decode_answer(job("deep", nested("both", 5_000)).encode(), AI_TRAINING_JOBS)

    assert found.metadata.resource_version == "7"


def test_plain_object_without_its_deepest_levels_is_malformed() -> None:
    """Somebody may write it again, and would take those levels away; others are read."""
    items = f"{job('deep', nested('lists', UNREADABLE))}, {job('ant')}"
    found = decode_list(f'{{"items": [{items}]}}'.encode(), PLAIN)

    assert [(one.key, one.uid) for one in found.malformed] == [(Key("team", "deep"), "uid-deep")]
    assert len(found.items) == 1
    with pytest.raises(MalformedError):
        decode_answer(job("deep", nested("lists", UNREADABLE)).encode(), PLAIN)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("[[1]]", "[[1]]"),
        ("[[[1]]]", "[[null]]"),
        ('{"a": [{"b": 1}, "[[", {}], "c": [[]]}', '{"a": [null, "[[", null], "c": [null]}'),
        (r'["\"[[", ["\\", [2]]]', r'["\"[[", ["\\", null]]'),
        ("[[[[", "[[null"),
        ("]][[[[1]]]]", "]][[[[1]]]]"),
    ],
)
def test_deeper_levels_are_cut(text: str, kept: str) -> None:
    """Brackets in texts do not count, nor does it matter that a text is no JSON."""
    assert cut(text.encode(), 2).decode() == kept


def test_depth_counts_levels_outside_texts() -> None:
    assert is_deep(nested("lists", DEPTH_MAX).encode())
    assert not is_deep(nested("lists", DEPTH_MAX - 1).encode())
    assert not is_deep(json.dumps("[" * 1_000).encode())
