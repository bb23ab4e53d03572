"""What users call: check, explain and hunt, with workers that stay warm between calls.

In: models, platforms, options as people write them. Out: frozen results that a notebook can show.
Guarantee: a `Session` ends all its processes, however it is left.
"""
