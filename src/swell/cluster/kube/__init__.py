"""Clients for any Kubernetes API server: an asynchronous one, and a blocking one for commands.

Both send the same calls by the same policy. In reading order:

- `access`: the address of a server and the credentials for it, as values.
- `kubeconfig`: reads them from kubeconfig files or from within a pod.
- `credentials`: tokens and certificates, and their renewal.
- `execplugin`: runs a user's exec plugin.
- `calls`: the request of each verb, and the function that reads its answer.
- `policy`: limits, request bytes, retries, and what answers mean. Pure.
- `answers`: reads HTTP/1.1 answers from bytes. Pure.
- `client`: the cluster port over the asynchronous client.
- `transport`: sends calls and opens streams, with asyncio.
- `connection`: opens and closes the connections of the asynchronous client.
- `pool`: connections for single calls, kept open.
- `stream`: a connection for one long answer.
- `oneshot`: the blocking client.
- `watching`: a few objects kept up to date by the blocking client, over one connection.
"""
