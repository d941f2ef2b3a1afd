"""Making a sharded index by stages of tasks, whose results are files. Wherever tasks run, the index is the same."""
