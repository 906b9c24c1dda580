"""How fast jobs are by size, and which sizes are worth most: pure arithmetic over arrays.

- `stepmodel`: the time of a training step by size, fitted to measurements.
- `batches`: goodput, with the best batch of each size.
- `evidence`: the reports of programs, read as hostile input.
- `sharing`: what other runs of the same program have measured.
- `tables`: the speeds of a job by size, measured or assumed.
- `prices`: the price of a device, and what a job's progress is worth by it.
- `knapsack`: the choice of the greatest total value within a budget.
- `turns`: which jobs keep their minimum, and which may be left with nothing for a while.
- `sizing`: candidate sizes, their values, and the choice.
"""
