"""The engines: how each builds its index and answers one query, and the range of its parameters.

To add a setting, add it to the grid of its engine; to add an engine, a module here and a line in `catalog`.
"""
