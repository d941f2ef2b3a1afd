"""From vectors to an index: inputs, clusters, segments, and the arrays that are written."""
