"""The paper's methods beside ours, and the names of all methods: what experiments compare."""

from segmax.paper.methods import ASC, METHODS, Anytime, MaxScore, method_name, parse_method

__all__ = ["ASC", "METHODS", "Anytime", "MaxScore", "method_name", "parse_method"]
