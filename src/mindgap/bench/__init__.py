"""What each stage costs, and how well it works.

In: nothing but this machine. Out: a `Measurement` with what was measured, on what, and ratios against a baseline
of the same run, because absolute times say little on a noisy machine.
"""
