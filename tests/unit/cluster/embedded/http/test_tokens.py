"""Tokens: the owner's, users', and those that are valid no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.cluster.embedded.access.attributes import ADMIN
from swell.cluster.embedded.http.credentials import Files, replace_token, token_of
from swell.cluster.embedded.http.tokens import Tokens
from swell.cluster.embedded.http.users import (
    LOOK_S,
    UserError,
    UsersFileError,
    add_user,
    read_users,
    remove_user,
    renew_user,
)


class Times:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def tokens(files: Files, times: Times) -> Tokens:
    return Tokens(files, times.now, times.now)


def test_owner(files: Files, tokens: Tokens) -> None:
    """The folder's own token is the administrator's, whatever the case of the scheme."""
    token = token_of(files)

    assert tokens.identity_of(f"Bearer {token}") is ADMIN
    assert tokens.identity_of(f"bearer {token}") is ADMIN
    for header in ("", token, f"Basic {token}", "Bearer ", f"Bearer {token}x", "Bearer \udcff"):
        assert tokens.identity_of(header) is None


def test_replaced_token(files: Files, tokens: Tokens, times: Times) -> None:
    """The new one is known at once, the old one refused with the next look."""
    old = token_of(files)
    assert tokens.identity_of_token(old)
    replace_token(files)
    times.at += 2 * LOOK_S

    assert tokens.identity_of_token(old) is None
    assert tokens.identity_of_token(token_of(files)) is ADMIN


def test_missing_token_file_lets_nobody_in(files: Files, tokens: Tokens, times: Times) -> None:
    """An empty token is none."""
    old = token_of(files)
    files.token_file.unlink()
    times.at += 2 * LOOK_S

    assert tokens.identity_of_token(old) is None
    assert tokens.identity_of_token("") is None


def test_user_from_its_making_to_its_end(files: Files, tokens: Tokens, times: Times) -> None:
    """Known at once, until it is renewed, expired or removed."""
    user, first = add_user(files.users_file, "vera", ("devs",), times.at, ttl_s=100)
    found = tokens.identity_of_token(first)
    assert found is not None
    assert (found.name, found.groups) == ("vera", ("devs", "system:authenticated"))
    assert (found.uid, found.is_master) == (user.uid, False)

    _, second = renew_user(files.users_file, "vera", times.at, ttl_s=100)
    times.at += 2 * LOOK_S
    assert tokens.identity_of_token(first) is None
    assert tokens.identity_of_token(second)
    times.at += 100
    assert tokens.identity_of_token(second) is None
    _, third = renew_user(files.users_file, "vera", times.at, ttl_s=100)
    assert tokens.identity_of_token(third)
    assert remove_user(files.users_file, "vera")
    times.at += 2 * LOOK_S
    assert tokens.identity_of_token(third) is None
    assert not remove_user(files.users_file, "vera")


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2, "users": []}', '{"users": [{}]}', "\0"])
def test_file_that_is_not_understood_lets_nobody_in(
    text: str, files: Files, tokens: Tokens, times: Times
) -> None:
    """Nor is it written over: it may be of a later release."""
    _, token = add_user(files.users_file, "vera", (), times.at, ttl_s=100)
    assert tokens.identity_of_token(token)
    files.users_file.write_text(text)
    times.at += 2 * LOOK_S

    assert tokens.identity_of_token(token) is None
    assert tokens.identity_of_token(token_of(files)) is ADMIN
    with pytest.raises(UsersFileError):
        add_user(files.users_file, "max", (), times.at, ttl_s=100)
    assert files.users_file.read_text() == text


@pytest.mark.parametrize(
    "name", ["", "A", "a_b", "-a", "a-", "a" * 64, "system:x", "a/b", "swell", "swell-admin"]
)
def test_names_that_are_refused(name: str, files: Files) -> None:
    """A name must be fit to name a binding after, and none of Swell's own."""
    with pytest.raises(UserError):
        add_user(files.users_file, name, (), 0.0, ttl_s=1)
    assert read_users(files.users_file) == []
