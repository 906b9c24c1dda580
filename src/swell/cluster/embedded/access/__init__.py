"""Roles and rights: identities, the rules of roles, and the answers to reviews.

A request comes with an identity and becomes attributes; the index finds the roles that are bound to
the identity, and their rules allow the request or do not.

- `attributes`: identities, and what a request asks for, as values.
- `policyrules`: the rules of roles: what one allows, and whether some cover another. Pure.
- `index`: the roles and bindings of the store by subject, and the decision on one request.
- `escalation`: refuses roles and bindings that grant more than their author has.
- `reviews`: answers TokenReviews, access reviews and their kin.
- `defaultroles`: the roles and bindings that a cluster begins with.
"""
