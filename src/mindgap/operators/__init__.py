"""Which operators a platform supports.

In: what a package registers, read without importing it (declared), or platforms that run here (observed). Out: frozen
tables by operator, dtype and platform. Guarantees that the two kinds of evidence are never mixed.
"""
