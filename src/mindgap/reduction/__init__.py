"""From a large witness of a difference to the smallest one, and to a script that needs nothing of mindgap.

In: a witness and the question whether another witness still shows the same finding. Out: a smaller witness
(`reduce`), and a standalone script with its issue text (`write_reproducer`).
Guarantee: each step keeps the same finding; the result was seen again in fresh processes; the same input and
the same answers give the same result.
"""
