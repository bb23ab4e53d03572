"""`python -m mindgap.cli` is the same as `mindgap`."""

from mindgap.cli import main

main()
