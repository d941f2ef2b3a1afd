"""A collection that changes while it is searched: parts, a log of what is new, and a manifest."""
