"""The paper's own methods, beside ours: what experiments compare."""

from segmax.search.methods import Anytime, MaxScore

__all__ = ["Anytime", "MaxScore"]
