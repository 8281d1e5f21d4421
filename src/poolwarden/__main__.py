"""`python -m poolwarden` is the `poolwarden` script."""

import sys

from poolwarden.cli import main

if __name__ == "__main__":
    sys.exit(main())
