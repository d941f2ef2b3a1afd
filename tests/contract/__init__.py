"""What everything that can be searched promises, stated once and asked of every kind."""
