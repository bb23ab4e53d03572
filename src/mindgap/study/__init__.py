"""The whole study from one command: real models, their variants, fragments and operators on every platform.

In: a plan and an amount of time. Out: a directory of campaigns, tables and pages. Guarantee: it continues wherever it
was stopped, and every number in its tables comes from a ledger in that directory.
"""
