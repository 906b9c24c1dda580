"""JSONPath templates, as kubectl reads them."""

from __future__ import annotations

import pytest

from swell.cli.command_line import CommandError
from swell.cli.objects.formats import (
    ObjectFormat,
    OutputChoice,
    column_rows,
    parse_output,
    sort_key,
)
from swell.cli.objects.jsonpath import JsonPathError, find_all, render

PODS = {
    "items": [
        {
            "metadata": {"name": "a", "labels": {"x.y/z": "1"}},
            "status": {"phase": "Running", "n": 3},
        },
        {"metadata": {"name": "b"}, "status": {"phase": "Failed", "n": 5, "ok": True}},
    ]
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{.items[*].metadata.name}", "a b"),
        ("{.items..name}", "a b"),
        ("{.items.*.metadata.name}", "a b"),
        ("{$.items[0].metadata.name}", "a"),
        (".items[0].status.n", "3"),
        ("{.items[-1].metadata.name}", "b"),
        ("{.items[0:1].metadata.name}", "a"),
        ("{.items[::2].metadata.name}", "a"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.status.n}{"\\n"}{end}', "a\t3\nb\t5\n"),
        ("{range .items[*]}{@.status.n};{end}", "3;5;"),
        ('{.items[?(@.status.phase=="Failed")].metadata.name}', "b"),
        ("{.items[?(@.status.phase!='Failed')].metadata.name}", "a"),
        ("{.items[?(@.status.n>3)].metadata.name}", "b"),
        ("{.items[?(@.status.ok)].metadata.name}", "b"),
        ("{.items[?(@.status.ok==true)].metadata.name}", "b"),
        ("{.items[0].metadata.labels.x\\.y/z}", "1"),
        ("{.items[0].metadata.labels['x.y/z']}", "1"),
        ("{.items[1].status}", '{"phase":"Failed","n":5,"ok":true}'),
        ("{.nothing.here}", ""),
        ("name: {.items[0].metadata.name}!", "name: a!"),
        ('{"}"}', "}"),
    ],
)  # fmt: skip
def test_template_is_filled_in(template: str, expected: str) -> None:
    """Expressions are replaced by what they find; missing fields are empty."""
    assert render(template, PODS) == expected


@pytest.mark.parametrize(
    "template",
    ["{.items", "{range .items[*]}", "{end}", "{.items[x]}", "{.items[?(x)]}", "{..}", "{.items[}"],
)
def test_text_that_is_no_template_is_refused(template: str) -> None:
    """A mistake is an error and not an empty answer."""
    with pytest.raises(JsonPathError):
        render(template, PODS)


def test_paths_of_columns_need_no_braces() -> None:
    """Custom columns and --sort-by take a bare path as well."""
    assert find_all(".status.n", PODS["items"][0]) == find_all("{.status.n}", PODS["items"][0])


def test_columns_have_a_heading_and_a_row_for_each_object() -> None:
    """A value that an object lacks is <none>."""
    choice = OutputChoice(ObjectFormat.CUSTOM_COLUMNS, "NAME:.metadata.name,OK:.status.ok")

    assert column_rows(PODS["items"], choice) == [["NAME", "OK"], ["a", "<none>"], ["b", "true"]]


def test_objects_sort_by_number_and_by_text() -> None:
    """Missing values come first, and numbers are no texts."""
    items: list[dict[str, object]] = [{"n": 10}, {"n": 9}, {}, {"n": "x"}]

    assert sorted(items, key=lambda item: sort_key(".n", item)) == [
        {},
        {"n": 9},
        {"n": 10},
        {"n": "x"},
    ]


@pytest.mark.parametrize("text", ["xml", "jsonpath", "custom-columns", "json=x", "jsonpath="])
def test_wrong_format_is_a_mistake_of_usage(text: str) -> None:
    """The formats there are get named, or the template that is missing."""
    with pytest.raises(CommandError) as refused:
        parse_output(text)

    assert refused.value.exit_code == 2
    assert refused.value.hint
