"""An index on disk: its components and how they are read and written."""
