"""What every controller needs. In reading order:

- `cluster`, `errors`, `clock`: the ports a component is given, and what can go wrong with them;
- `cache`, `following`, `informer`: what is known of one kind of object, and how it is kept current;
- `queue`, `backoff`: which keys to look at, and when;
- `plan`: what a decision returns; `executor`: how it is carried out; `doubt`: what must be read
  first when that went wrong;
- `controller`, `story`: the loop that joins them;
- `leader`, `guard`: who may write; `events`: what people are told;
- `manager`, `health`, `metrics`, `logs`: a program around it all.
"""
