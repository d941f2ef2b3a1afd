"""segmax inside the tools people already use: a module per library, each with an extra of its own."""
