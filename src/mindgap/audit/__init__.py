"""From a program to its gates: small values made from the input that stay as they are on ordinary inputs and decide
the output when they do not. In goes a case, out comes a verdict with evidence: a forced gate, and an input that fires
it. A gate that an honest model has is left out with the reason. Nothing here writes a model.
"""
