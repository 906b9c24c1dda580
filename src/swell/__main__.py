"""Runs the `swell` command for `python -m swell`."""

from swell.cli.main import main

main()
