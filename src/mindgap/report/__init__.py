"""What people read.

In: results. Out: tables on the terminal and JSON documents. Guarantee: names and messages that come from models
are shown as text, never interpreted; `summary` is pure, and only `console` prints.
"""
