"""The acting half of the scheduler: follows a cluster, has decisions made, and carries them out."""
