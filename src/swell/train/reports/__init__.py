"""Reports of progress and speed, for those who decide on sizes. Its files, in reading order:

- `rates`: samples a second by the group's size, smoothed.
- `noise`: the gradient's noise, from squared norms of members' gradients and of their mean.
- `reporter`: one report of all that is known, published by the leader.
- `measures`: step times and norms of all members, brought together now and then.
"""
