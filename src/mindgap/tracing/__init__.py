"""Where a difference starts.

In: a witness (a program with its constants and inputs) that shows a difference on one platform.
Out: for each operator the error that it adds itself and the error that it inherits (`Trace`), the culprit,
the compiler layer and the kind of cause, each with the experiments that support it.
Guarantee: everything is run by workers through the pool, and judged like any other program.
"""
