"""The sockets, files, signals and threads around a member's state machine. In reading order:

- `folder`: reads the members folder and the release file.
- `handshake`: both ends of a line prove that they know the job's secret.
- `connection`: one socket that never blocks: frames, handshake, or a request for the report.
- `reporting`: the answer to a request for the report.
- `sending`: sends reports to the operator, where a policy forbids it to ask for them.
- `resolver`: addresses of names, on a thread of its own.
- `gate`: lets the training thread begin a step, or not.
- `termination`: SIGTERM, seen while the training thread sits in a collective.
- `loop`: the bus thread: events from sockets and files, instructions carried out.
- `opened`: the group as the training thread sees it.
"""
