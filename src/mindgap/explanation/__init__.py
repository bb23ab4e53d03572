"""From a difference to the operator, the cause and a short proof.

In: a case and the platform that differs on it. Out: an `Explanation`, and a folder with repro.py and issue.md.
Guarantee: what is claimed was seen again in a fresh process, or the explanation says that it was not.
"""
