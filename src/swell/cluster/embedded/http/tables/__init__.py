"""Tables as `kubectl get` prints them: the server computes the rows. Pure.

- `table`: objects as a Table or as bare metadata.
- `jsonpath`: the JSONPath of custom columns.
- `cells`: the cells of every built-in kind but pods.
- `podcells`: the cells of a pod.
- `formats`: ages, durations, labels and selectors as text.
"""
