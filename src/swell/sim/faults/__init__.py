"""Faults between a simulated process and the API server.

- `plan`: kinds of faults, written fault plans, and the injector that decides at each call.
- `swarm`: how often each kind of fault happens in a run, drawn by seed.
- `network`: the state that all clients of a run share.
- `effects`: the effect of each kind of fault on a request.
- `watches`: watch streams that lag, repeat, skip or end.
- `cluster`: the client of a process, with all of these.
"""
