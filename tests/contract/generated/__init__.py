"""Behaviours drawn from a seed and played on two servers, whose whole answers are compared.

- `cases.json`: behaviours of 37 families, one a line, in the language of `recorded/play.py`.
- `mutations`: draws further behaviours from those by changing single values of their bodies.
- `compare`: plays behaviours on a real server and on ours, and says where the answers differ.
- `known.json`: the behaviours of `cases.json` that differ today.
"""
