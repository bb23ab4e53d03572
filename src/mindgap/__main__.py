"""`python -m mindgap` is the same as `mindgap`."""

from mindgap.cli import main

main()
