"""Server-side apply: which client owns which field of an object (`metadata.managedFields`).

- `fieldsets`: paths of fields, and sets of them in the form that objects carry.
- `structure`: what of a kind is merged and what is replaced as a whole.
- `walks`: the fields of a body, two bodies merged, compared, and one with fields taken out.
- `managers`: applies a body for a manager, with its conflicts; follows other writes.
"""
