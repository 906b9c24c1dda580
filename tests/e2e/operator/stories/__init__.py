"""The stories, by what they are about: one behaviour a row."""

from tests.e2e.operator.stories import (
    deletion,
    endings,
    faults,
    fields,
    objects,
    resizing,
    restarting,
    specchanges,
)
from tests.e2e.operator.story import Story

STORIES: tuple[Story, ...] = (
    *objects.STORIES,
    *fields.STORIES,
    *endings.STORIES,
    *restarting.STORIES,
    *faults.STORIES,
    *resizing.STORIES,
    *specchanges.STORIES,
    *deletion.STORIES,
)
