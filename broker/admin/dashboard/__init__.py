"""The dashboard: one page that shows a running broker as it works.

`page` is what the browser gets: HTML, style and scripts as they are, with uPlot for the charts; nothing is built, and
nothing comes from elsewhere. Each second the broker sends a moment (`moment.py`), made by one walk for all viewers
(`viewers.py`); without viewers there is no walk. At 100,000 sessions a walk takes 0.2 to 0.3 s of CPU time, in slices
that hold the loop for 0.2 to 1 ms, so that a moment comes every 2 to 3 s.
"""
