"""The tree can be read by an outsider: plain words, sentences, a way through every package."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.tidiness import ROOT, SOURCES, facts_of, name

ARCHITECTURE = ROOT / "docs" / "architecture.md"
SOURCE_ROOT = ROOT / "src" / "swell"
OPENINGS = ("What", "Who", "Whom", "Nobody", "Whatever")
PACKAGES = sorted(path.parent for path in SOURCES if path.name == "__init__.py")
# Two columns of the glossary's second table: the word that is not used, and the one that is.
REPLACED = re.compile(r"^\| ~~(?P<banned>\w+)~~ \|", re.MULTILINE)
LISTED = re.compile(r"^- (?P<names>`\w+`(?:, `\w+`)*):", re.MULTILINE)
FILE = re.compile(r"`(?P<path>[a-z_]+(?:/[a-z_]+)*\.py)`")
# The autoscaler's seed names its functions itself.
SEED_NAMES = frozenset({"InquiryResource", "inquiry_resource"})


@cache
def section(title: str) -> str:
    """The part of the architecture page below one heading, up to the next."""
    _, _, rest = ARCHITECTURE.read_text().partition(f"\n## {title}\n")
    assert rest, f"no section {title!r}"
    return rest.partition("\n## ")[0]


def parts(identifier: str) -> Iterator[str]:
    """The words of an identifier: `is_news` and `DirtyMarks` have two each."""
    for piece in identifier.split("_"):
        yield from (word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", piece))


def identifiers(path: Path) -> Iterator[tuple[int, str]]:
    with io.StringIO(path.read_text()) as text:
        for token in tokenize.generate_tokens(text.readline):
            if token.type == tokenize.NAME and token.string not in SEED_NAMES:
                yield token.start[0], token.string


@cache
def banned_words() -> frozenset[str]:
    return frozenset(match["banned"] for match in REPLACED.finditer(section("Glossary")))


@cache
def anywhere() -> re.Pattern[str]:
    return re.compile("|".join(sorted(banned_words())))


def banned_in(path: Path) -> list[str]:
    """The banned words among the identifiers of a file. Few files have one in any place."""
    own = path.relative_to(SOURCE_ROOT).with_suffix("").parts
    if not anywhere().search(path.read_text().lower()) and not anywhere().search("/".join(own)):
        return []
    used = [*((0, part) for part in own), *identifiers(path)]
    return [f"{line}: {word}" for line, word in used if banned_words().intersection(parts(word))]


def test_sources_have_no_banned_word() -> None:
    """Names come from the field; the glossary lists the private words that were given up."""
    found = {name(path): words for path in SOURCES if (words := banned_in(path))}

    assert banned_words()
    assert found == {}


def test_docstrings_are_sentences() -> None:
    """Modules and public classes have one; every docstring opens like a sentence, not a riddle."""
    found = {name(path): places for path in SOURCES if (places := [*bad_docstrings(path)])}

    assert found == {}


def bad_docstrings(path: Path) -> Iterator[str]:
    facts = facts_of(path)
    texts = {"module": facts.docstring}
    for one in facts.definitions:
        must_have = one.is_class and not one.name.startswith("_")
        if one.docstring or must_have:
            texts[f"{one.line} {one.name}"] = one.docstring
    for place, text in texts.items():
        if not text:
            yield f"{place}: has no docstring"
        elif not opens_well(text):
            yield f"{place}: does not open like a sentence"


def opens_well(text: str) -> bool:
    return text[0].isupper() and text.split(maxsplit=1)[0].rstrip(",.:;") not in OPENINGS


def unlisted(package: Path) -> set[str]:
    """The files and sub-packages that the docstring lacks, and those that it names in vain."""
    text = facts_of(package / "__init__.py").docstring or ""
    listed = [n for match in LISTED.finditer(text) for n in re.findall(r"\w+", match["names"])]
    files = [path.stem for path in package.glob("*.py") if path.name != "__init__.py"]
    folders = [path.parent.name for path in package.glob("*/__init__.py")]
    return {*(Counter(listed) - Counter(files + folders)), *{*files, *folders} - {*listed}}


def test_packages_list_their_files_in_reading_order() -> None:
    """A package's docstring names all of its files and sub-packages once, and no others."""
    found = {name(package): names for package in PACKAGES if (names := unlisted(package))}

    assert PACKAGES
    assert found == {}


def test_classes_have_names_of_their_own() -> None:
    """A class name means one thing in the whole tree, so that it can be searched for."""
    homes = defaultdict(list)
    for path in SOURCES:
        for one in facts_of(path).definitions:
            if one.is_class:
                homes[one.name].append(f"{name(path)}:{one.line}")

    assert {word: places for word, places in homes.items() if len(places) > 1} == {}


def test_architecture_names_every_package() -> None:
    """The table of packages is complete: a folder missing there would not be found."""
    table = section("Packages")
    folders = [str(p.relative_to(SOURCE_ROOT)) for p in PACKAGES if p != SOURCE_ROOT]

    assert [folder for folder in folders if f"`{folder}`" not in table] == []


@pytest.mark.parametrize(
    "title", ["One job, from `swell run` to its process and back", "Where is it decided?"]
)
def test_architecture_names_files_that_exist(title: str) -> None:
    """The trace of a job and the reader's questions lead to files that are there."""
    paths = [match["path"] for match in FILE.finditer(section(title))]

    assert len(paths) >= 10
    assert [path for path in paths if not (SOURCE_ROOT / path).exists()] == []
