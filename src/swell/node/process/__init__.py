"""The process runtime: containers as process groups of this machine. In reading order:

- `fields`, `environment`, `volumes`, `names`: what a container is given. Pure;
- `folders`: where everything is on disk; `files`: how volumes are written there;
- `supervised`: one container and its supervisor; `probes`: is it well; `errands`: commands beside
  it; `limits`: is it within its memory; `gpus`: who has which;
- `inputs`: the API objects that containers refer to; `preparation`: from a pod to an order;
- `runtime`: all of it behind the agent's `Runtime` port;
- `logfiles`, `logserver`, `lastwords`: reading what containers have written.
"""
