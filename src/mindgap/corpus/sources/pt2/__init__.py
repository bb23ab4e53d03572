"""Archives that `torch.export.save` writes.

In: a `.pt2` file. Out: its program and inputs. `safety` finds what would execute code when it is
loaded; such a file is refused without trust.
"""
