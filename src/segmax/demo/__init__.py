"""A small collection that ships with segmax (Vaswani, 11,429 abstracts), and a demonstration on it."""
