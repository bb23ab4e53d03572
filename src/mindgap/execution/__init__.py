"""Transport: cases to worker processes, answers back.

In: a task (a function that a worker runs) and its request. Out: the answer, or how the worker died; a crash, a hang, a
full memory and a half-written answer are values. Guarantee: the next request is unaffected, and no process
outlives its parent. Nothing here knows what a task does.
"""
