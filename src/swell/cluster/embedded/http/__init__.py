"""HTTPS in front of the embedded API server, for kubectl and client libraries.

- `__main__`: the server as a command of its own.
- `serving`: the server's life on one state folder.
- `connections`: which connections are accepted, and for how long they may be silent.
- `credentials`: certificate, token, port and kubeconfig.
- `users`: the users of the folder, with digests of their tokens.
- `tokens`: the identity of a bearer token.
- `rotation`: applies changed credentials to connections that are open.
- `authorization`: what a request asks for, as roles name it, and on whose behalf.
- `audit`: the log of writes and of denied requests.
- `gate`: what every request passes: identity, rights, audit.
- `handler`: the entry point of every request.
- `routing`: which resource a path names, and which form Accept asks for.
- `resources`: requests for resources, from method and path to a verb and its response.
- `options`: the options in queries and bodies.
- `payloads`: the bytes of a body, within their limits of size and time.
- `bodies`: JSON and YAML bodies.
- `protobuf`: protobuf bodies.
- `responses`: objects, lists, events and Status objects as bytes.
- `tables`: the tables that kubectl prints.
- `watches`: watches as streams of lines.
- `streams`: commands in containers and ports of pods, over WebSockets.
- `logs`: the logs of pods, fetched from node agents.
- `metrics`: figures of the running server.
- `discovery`: the documents that list what is served.
- `openapi`: the documents that describe it.
- `openapi2`: the same in version 2, for what kubectl still reads there.
"""
