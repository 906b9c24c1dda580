"""NEW PACKAGE: describe."""
