"""Runtimes that torch has no converter to, behind one table of core-ATen operators.

In: a case, exported and decomposed by torch to core ATen. Out: its outputs by name.
Guarantee: what an operator means is written once, in `table.py`; a runtime brings a vocabulary of its own calls.
"""
