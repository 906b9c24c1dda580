"""Commands for whole clusters.

- `up`: `swell up` and `down`, the embedded cluster.
- `dashboard`: `swell dashboard`, the page of any cluster.
- `choosing`: `swell cluster` and `use`, which cluster commands talk to.
- `store`: `swell backup`, `restore` and `check`, for the data of the embedded cluster.
- `users`: `swell user`, identities besides the owner's.
- `rotation`: `swell rotate`, new credentials of the owner and the server.
- `chaos`: `swell chaos`, faults on purpose.
- `uninstall`: `swell uninstall`, takes Swell out of a cluster.
"""
