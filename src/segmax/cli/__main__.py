"""Run the command line: `python -m segmax.cli`."""

import sys

from segmax.cli.main import main

sys.exit(main())
