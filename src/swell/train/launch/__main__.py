"""Lets `python -m swell.train.launch` do what `swell launch` does."""

import sys

from swell.train.launch.program import main

sys.exit(main())
