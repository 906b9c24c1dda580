"""How members agree on who trains together. Its files, in reading order:

- `plan`: one generation of the group, and the state a member holds.
- `messages`: the words that members exchange, and their form on the wire.
- `events`: events that go into a member's state machine, and instructions that come out.
- `lines`: numbered messages, signs of life, and who is at the other end.
- `liveness`: which members are dead for certain.
- `ballots`: how a plan is agreed on, and by how many.
- `knowledge`: all that a member remembers.
- `seeking`: how a member finds its leader.
- `choosing`: which plan follows.
- `switching`: voluntary changes, at a step that all agree on.
- `probing`: how a leader asks at the places of those who are missing.
- `leading`: the leader's part.
- `following`: the leader that a member follows, or that it is.
- `ending`: when all is trained, and by whom.
- `departing`: whether and when a member leaves.
- `member`: the state machine of a member.
- `shell`: sockets, files, signals and threads around it.
"""

from swell.train.bus.shell.opened import BusGroup, BusStoppedError, open_group

__all__ = ["BusGroup", "BusStoppedError", "open_group"]
