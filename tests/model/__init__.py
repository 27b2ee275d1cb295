"""The rules of FLOW-CONTROL.md as a program that is obviously right and not fast, and what holds the session to it.

Nothing here uses code of session/, but for `real.py`, which holds the session to be compared.
"""
