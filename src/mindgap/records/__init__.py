"""Frozen data that crosses stages.

In: nothing; these modules import no other part of mindgap. Out: records that every stage shares.
Guarantee: a record never changes after it is made.
"""
