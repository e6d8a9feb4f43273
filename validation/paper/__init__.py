"""The tables and figures of the papers, a file each, published numbers beside ours.

A file has the functions of a report, ``tasks`` and ``section`` (see ``validation.reports``);
the published numbers stand on top of it.
"""
