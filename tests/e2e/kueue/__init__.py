"""Jobs that a real Kueue admits, stops and starts again."""
