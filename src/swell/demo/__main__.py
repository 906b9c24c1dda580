"""Lets `python -m swell.demo` do what `make demo` does."""

import sys

from swell.demo.story import main

sys.exit(main())
