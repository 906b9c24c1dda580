"""The reference of fields is the one that the schemas give."""

from __future__ import annotations

from tools.write_fields import FILE, page


def test_page_is_current() -> None:
    """`python -m tools.write_fields` changes nothing."""
    assert FILE.read_text() == page()


def test_page_has_fields_with_their_bounds_and_rules() -> None:
    """A reader finds the name as it is written, what it may be, and what it must agree with."""
    text = page()

    assert "| `spec.replicaSpecs{}.template` | object | **Required.**" in text
    assert "Default: `default`." in text
    assert "- minReplicas must not be greater than replicas" in text
    assert "`spec.trainer.min-instance`" in text
