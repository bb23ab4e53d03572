"""One file per runtime; discovered, never branched on.

In: a `Case` (the user's source or a program, with inputs). Out: named outputs. Guarantee: a platform that
cannot be used stays listed and says why; everything that goes wrong carries the stage at which it happened.
"""
