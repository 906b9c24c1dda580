"""Programs that become a worker. They run before the script does, with the standard library alone:
they are started by their path, and must not bring anything of Swell into the user's process.

- `confined`: ends with its parent, and becomes another program.
- `zygote`: loads a framework once, and forks the workers.
"""
