"""Real models.

In: a model as a user names it (`timm:resnet18`, `file.py:factory`, `model.mgp`). Out: a callable with inputs
that fit it, its weights alive and made from the seed. Guarantee: nothing from a data file is executed without
trust.
"""
