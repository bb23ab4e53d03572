"""The mutations, by family.

In: a draft. Out: the draft, changed, and what was done in words. A precondition that does not hold, or an operator that
rejects the change, raises `Refused`; the caller goes back to its checkpoint.
"""
