"""The parts every controller is built from. Nothing here knows a kind of object.

A change reaches a controller by the reflector and the informer, waits as a key in the work queue,
is decided on from a snapshot, and becomes a plan that the executor writes. In that order:

- `clock`: time as a dependency, real or simulated.
- `cluster`: the port through which a component reads and writes a Kubernetes API.
- `errors`: the failures of that port, as a tree of exceptions.
- `reflector`: lists and watches one collection, and resumes a watch that broke or went stale.
- `tombstones`: deletions that consistent reads have proved and the watch has not reported yet.
- `salvage`: a placeholder for an object that cannot be decoded, with all that can be read of it.
- `cache`: the newest known state of each object of one kind, with indexes.
- `feed`: hands keys to the handlers of one consumer, and mends it when one has failed.
- `informer`: a reflector feeding a cache, and handlers that receive the keys that changed.
- `queue`: the work queue of keys, with delays and retries.
- `plan`: the value a decision returns: actions in order, and when to look again.
- `executor`: carries a plan out, and classifies the write that failed.
- `uncertain`: keys whose objects must be read again before the next decision.
- `controller`: the reconcile loop that joins the parts above.
- `events`: records Kubernetes events at a bounded pace.
- `guard`: fencing: refuses the writes of a process that may no longer lead.
- `leader`: leader election by a Lease, and the work done while leading.
- `manager`: starts and stops the services of a program, and contains unexpected exceptions.
- `reviews`: asks the API server who the client of an endpoint is, and what that user may do.
- `connections`: how many connections of an endpoint may be silent, and for how long.
- `health`: the /livez, /readyz and /metrics endpoints.
- `metrics`: the metrics that the runtime exports.
- `traces`: spans of passes, sent to a collector of OpenTelemetry.
- `watchdog`: notices an event loop that stands still.
- `garbage`: collections of garbage that keep nobody waiting.
- `logs`: structured logging.
- `logfile`: a log file of bounded size.
"""
