"""Platforms in processes of their own.

In: a subject (model, weights, inputs) and a platform. Out: an outcome, whatever happens: a crash, a
hang, a full memory and a half-written answer are outcomes with a stage. Guarantee: the next request is
unaffected, and no process outlives its parent.
"""
