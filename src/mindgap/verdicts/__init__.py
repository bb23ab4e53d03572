"""What we conclude about each platform, with the evidence that a maintainer asks for.

In: the outcomes of all platforms, and a survey of the program (`survey`, made in a worker process): its float64
reference, the spread that rounding explains, and the elements whose behaviour is unspecified.
Out: one verdict per platform and the comparison of each output behind it (`judge`).
Guarantee: judging is a pure function of its records, needs bounded memory whatever the size of an output, and
calls nothing a defect that rounding, chance or an unspecified behaviour explains.
"""
