"""Where a difference starts.

In: a witness: a case that shows a difference on one platform.
Out: for each operator the error that it adds itself and the error that it inherits (`Trace`), the culprit,
the compiler layer and the kind of cause, each with the experiments that support it.
Guarantee: everything runs in workers and is judged like any other case.
"""
