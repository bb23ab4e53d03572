"""What people read.

In: results. Out: tables on the terminal, Markdown, HTML and JSON documents. Guarantee: names and messages that come
from models are shown as text, never interpreted; only `console` and `campaign_console` print, the rest is pure.
"""
