"""Architectures of transformers, made tiny.

In: a model type and head. Out: the model with small random weights and inputs for its forward. `models` picks the
classes, `shrink` cuts the configuration, `inputs` makes the call. Nothing is downloaded.
"""
