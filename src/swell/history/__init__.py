"""History: what became of jobs, kept beyond the jobs themselves.

One life's way through it: a job's status and pods are observed, the record is kept in a shard, and
a reader adds up where its time went. In reading order:

- `life`: the record of one job's life, and its compact form.
- `phases`: how lists that an API object cuts off are put together again.
- `observing`: a record brought up to date with a job's object. Pure.
- `pods`: which pods ran where, from when to when, and what they held. Pure.
- `ledger`: every second of a life by its one cause. Pure.
- `places`: which job, role and index a pod belongs to. Pure.
- `settings`: how much is kept, and what is asked of a kind of job.
- `shards`: which ConfigMap a record goes to, and which records are too old. Pure.
- `shelf`: writes and reads the shards of one kind of record.
- `keeper`: follows the jobs of an operator, and keeps their records.
- `reading`: records from ConfigMaps, selected and in order.
- `summary`: the figures of one life, as tables, JSON and the page show them.
- `pictures`: timelines and curves as SVG. Pure.
- `report`: jobs as one HTML file. Pure.
- `export`: lives as a trace that `swell replay` reads.
"""
