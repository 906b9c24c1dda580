"""Attacks on the server of a whole process, while another client goes on working.

- `harness`: the server, the other client, and what is measured of both.
- `bystander`: the other client, a program of its own.
- `payloads`: attacks by bodies, patches and queries.
- `objects`: attacks by objects that are valid one by one: number, size, relations.
- `definitions`: attacks by custom resource definitions, schemas, rules and columns.
- `growth`: attacks by small requests that grow: defaults, scalars, what clients hold back.
- `rights`: attacks by roles, bindings, reviews and tokens.
- `floods`: attacks by many ordinary requests at once.
- `connections`: attacks by connections, headers and watches.
- `streams`: attacks by commands in pods and forwarded ports.
- `controllers`: attacks by objects that the control loops read.
- `processes`: attacks by what the processes of pods do.
- `workloads`: attacks by pods and jobs, on a whole cluster with real processes.
- `catalogue`: all of them by name.
- `fuzzing`: random inputs for every parser.
"""
