"""Campaigns: many variants on many platforms for hours or days, on one machine or on a fleet of unlike ones.

In: a plan (platforms, corpus, seed, how many variants) and a directory. Out: a ledger of programs, outcomes, verdicts
and findings in that directory (docs/hunt.md). Guarantee: the same plan gives the same outcomes and verdicts, however
often workers or the campaign itself are killed and resumed; what was not run or not judged is counted.
"""
