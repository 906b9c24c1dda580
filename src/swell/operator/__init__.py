"""The job operator: one framework, and a folder for each job kind that it runs.

In reading order:

- `framework`: the parts every job kind shares, from the informers to the running program.
- `aitrainingjob`: the kind whose pods the operator creates itself, role by role.
- `trainingjob`: the kind whose pods come from ReplicaSets and an Indexed Job.

A third kind is a third folder with a `kind` module that returns a `JobKindDefinition`.
"""
