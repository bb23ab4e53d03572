"""Labelled data in, a verdict per platform out: do its answers change by more than rounding explains?

Comes in: a model, a labelled set, platforms. Goes out: metrics, the samples whose answer changed, an exact test.
Guarantees: bounded memory, and a run that was stopped continues with the batch that it was at.
"""
