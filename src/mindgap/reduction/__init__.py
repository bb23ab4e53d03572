"""From a large witness of a difference to the smallest one.

In: a witness and the question whether another witness still shows the same finding. Out: a smaller witness (`reduce`).
Guarantee: each step keeps the same finding; the same witness and the same answers give the same result.
"""
