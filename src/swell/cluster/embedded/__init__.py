"""The embedded cluster: store, API semantics, HTTPS server, small built-in controllers."""
