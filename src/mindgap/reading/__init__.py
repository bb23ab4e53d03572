"""Reading what other people wrote: program files, archives, packs, configurations.

In: bytes or a path. Out: plain data within declared limits (`limits`), or an error of the family `Unreadable`.
Nothing is built before its depth, counts and sizes are known; nothing is executed and no path comes from content.
"""
