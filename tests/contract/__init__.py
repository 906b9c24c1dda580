"""One set of behaviours, three clusters: the store in-process, embedded over HTTPS, a real one."""
