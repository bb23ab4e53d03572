"""One self-contained page per campaign, check, operator sweep or comparison.

In: what was measured. Out: an HTML file that opens offline. Guarantee: what models and runtimes said is text, never
markup; a content security policy holds the page to that.
"""
