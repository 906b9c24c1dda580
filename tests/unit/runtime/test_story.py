"""What happened to a key is told in order, and never grows without bound."""

from __future__ import annotations

from swell.api.meta import Key
from swell.runtime.story import Stories


def test_stories_keep_the_last_lines_of_the_last_keys() -> None:
    """Memory is bounded by keys and by lines; the oldest go first."""
    stories = Stories(keys_max=2, lines_max=3)
    a, b, c = (Key("ns", name) for name in "abc")
    for n in range(5):
        stories.add(a, f"a{n}")
    stories.add(b, "b")
    stories.add(a, "a5")
    stories.add(c, "c")

    assert stories.tell(a) == ["a3", "a4", "a5"]
    assert stories.tell(b) == []
    assert stories.tell(c) == ["c"]
