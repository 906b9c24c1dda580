"""The simulator: controllers in a simulated cluster, with faults, in virtual time.

In reading order:

- `loop`: an asyncio event loop in virtual time.
- `chance`: randomness keyed by what it decides.
- `faults`: what may go wrong between a process and the API server, and when.
- `process`: a simulated process that crashes, restarts and pauses.
- `server`: the embedded API server in virtual time.
- `actors`: nodes and disturbances.
- `invariants`: safety and liveness checks, and their violations.
- `observation`: the trace of a run, and ways to read the state and the history of objects.
- `leadership`: replicas with a leader, and their checks.
- `scenario`: the system under test and the circumstances of a run, as values.
- `world`: one run: server, actors and processes, through its two phases.
- `campaign`: many runs, from seeds or plans, and their report.
"""
