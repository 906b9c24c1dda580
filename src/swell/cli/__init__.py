"""The `swell` command, one file a command group."""
