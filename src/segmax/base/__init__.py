"""What all other packages build on: errors, checks, files, memory, threads, progress, and how things are displayed.

segmax logs to the logger "segmax" and its children, and is silent unless the application configures logging.
"""

import logging

logging.getLogger("segmax").addHandler(logging.NullHandler())
