"""What is in an index, and how tight its bounds are."""
