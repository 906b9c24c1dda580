"""The node agent: registers nodes, and runs the pods bound to them. In reading order:

- `pods`: pods as the agent reads them; `runs`: what is known of their containers;
- `progress`, `ending`, `decision`: what to do with a pod's containers; `report`: what to say of
  it. Pure;
- `agent`: the loop that joins decisions, a runtime and the API;
- `hollow`: a runtime that only pretends; `process`: the one with real processes;
- `nodes`, `registration`, `heartbeat`, `machine`: the Node objects and their Leases.
"""
