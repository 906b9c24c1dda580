"""The chart's page of values."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from swell.api.meta import Body
from tools.write_values import CHART, page, values


def test_page_is_current() -> None:
    """`python -m tools.write_values` changes nothing."""
    assert (CHART / "README.md").read_text() == page()


def leaves(body: Body, path: str = "") -> Iterator[tuple[str, object]]:
    for name, value in body.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def test_every_value_is_listed_with_its_default() -> None:
    """As YAML reads them."""
    text = (CHART / "values.yaml").read_text()
    listed = {name: yaml.safe_load(value) for name, value, _ in values(text) if value}
    flat = {
        name: value for name, value in listed.items() if not isinstance(value, dict) or not value
    }
    inline = {name: value for name, value in listed.items() if name not in flat}
    for name, value in inline.items():
        flat |= dict(leaves(value, f"{name}."))

    assert flat == dict(leaves(yaml.safe_load(text)))
