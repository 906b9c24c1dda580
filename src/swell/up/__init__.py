"""The embedded cluster of `swell up`: all parts in one process.

- `assembly`: puts the parts together, starts and stops them in order.
- `page`: where the page of the cluster is, and the code to log in.
- `background`: starts and stops that process from another one.
- `processes`: finds and ends processes of containers that outlived it.
"""
