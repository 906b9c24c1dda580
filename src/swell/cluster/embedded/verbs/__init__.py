"""The API server's verbs, by subject. All synchronous: nothing happens between check and commit."""
