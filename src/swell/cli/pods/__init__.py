"""Commands that reach into running pods.

- `command`: `swell exec`, `cp` and `port-forward`: their flags, and which pod is meant.
- `sockets`: the WebSocket to a stream of a pod.
- `execution`: runs a command in a container, with input, output or a terminal.
- `copying`: files to and from a container, as an archive.
- `forwarding`: local ports that lead to those of a pod.
"""
