"""The page: jobs, queues, nodes and the history in a browser, live.

The page's process has no rights of its own. A session holds the credentials that its user gave at
login, and everything is read and written with those (docs/adr/0129). In reading order:

- `rows`: what the page shows of an object, as JSON. Pure.
- `actions`: what users may do to jobs and queues, as patches. Pure.
- `packing`: how much of each node its pods take. Pure.
- `feed`: follows the objects that one user may see, and hands changes to open pages.
- `sessions`: who is logged in, with which credentials, and until when.
- `details`: one job with its timeline, pods and events; the history.
- `questions`: why a job waits, and what would happen to another.
- `security`: the headers of every answer, and which requests are refused.
- `server`: the routes, and the server.

`static` has the page itself: one document, one style sheet, one script, written by hand.
"""
