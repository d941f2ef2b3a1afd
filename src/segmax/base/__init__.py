"""What every room stands on: errors, checks, files, memory, threads, progress, and how things are displayed."""
