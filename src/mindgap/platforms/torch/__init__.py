"""torch itself, operator by operator and compiled, on the CPU and on every device that torch knows.

In: a case. Out: its outputs by name, fetched to the CPU with the strides that they had.
Guarantee: seeds are set before each run, and a second run starts from the state that the first one met.
"""
