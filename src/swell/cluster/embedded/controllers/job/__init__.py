"""The Job controller: which pods a Job needs, what its finished pods mean, and when it has ended.

`decision` puts the parts together: `tally` counts, `ending` judges, `population` says which pods to
make or give up, `tracking` moves finished pods into the status, each once.
"""
