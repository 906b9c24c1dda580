"""The whole library: the table of functions, filled by the files that are imported here."""

from __future__ import annotations

from swell.cel import conversions, kubernetes, operators, sequences, texts
from swell.cel.functions import FUNCTIONS

__all__ = ["FUNCTIONS", "SOURCES"]

SOURCES = (operators, conversions, texts, sequences, kubernetes)
