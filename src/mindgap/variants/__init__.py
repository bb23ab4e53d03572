"""Variants: new programs derived from real ones.

In: base programs (the smoke corpus, a store, files). Out: an endless, deterministic stream of complete programs, each
with the recipe that made it. Guarantee: base and seed give the same variant in any process; what is meant to be
valid was checked operator by operator with rules that were learned by running the operators.
"""
