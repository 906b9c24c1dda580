"""YAML from outside: the values it means, and budgets that hold while it is read."""

from __future__ import annotations

import pytest

from swell.api.manifest.composer import ManifestSyntaxError
from swell.api.manifest.yamldata import YamlBudget, read_document, read_documents


def test_values_as_kubectl_reads_them() -> None:
    text = "a: yes\nb: 012\nc: 2020-01-01\n5: x\nd: ~\ne: [1.0, .5]\nf: 'n'\n"

    assert read_document(text) == {
        "a": True, "b": 10, "c": "2020-01-01", "5": "x", "d": None, "e": [1, 0.5], "f": "n",
    }  # fmt: skip


def test_aliases_and_merges() -> None:
    text = "a: &x {p: 1}\nb: {<<: *x, q: 2}\nc: [*x]\n"

    assert read_document(text) == {"a": {"p": 1}, "b": {"q": 2, "p": 1}, "c": [{"p": 1}]}


def test_repeated_keys_are_told_and_the_last_counts() -> None:
    repeated: list[tuple[int, str]] = []

    assert read_document("a: 1\nb: 2\na: 3\n", repeated=repeated) == {"a": 3, "b": 2}
    assert repeated == [(3, "a")]


def test_several_documents() -> None:
    assert list(read_documents("a: 1\n---\n---\nb\n")) == [{"a": 1}, None, "b"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 80_000,
        "a: " + "[" * 40_000 + "]" * 40_000,
        "{a: " * 40_000,
        "- " * 40_000,
        "? " * 40_000,
        "".join(" " * n + "a:\n" for n in range(500)),
        "a0: &a0 [x,x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1},*a{n - 1}]\n" for n in range(1, 40)),
        "a: &a [*a]",
        "a: *nothing",
        "a: .inf",
        "!!python/object/apply:os.getcwd []",
        "a: b: c",
        "\x00",
    ],
)
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(ManifestSyntaxError):
        read_document(text)


def test_budgets() -> None:
    with pytest.raises(ManifestSyntaxError, match="larger than"):
        read_document("a: bcd", YamlBudget(text_bytes=3))
    with pytest.raises(ManifestSyntaxError, match="more than 3 values"):
        read_document("[1, 2, 3]", YamlBudget(values=3))
    with pytest.raises(ManifestSyntaxError, match="aliases"):
        read_document("[&a 1, *a]", YamlBudget(aliases=False))
