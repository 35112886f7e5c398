"""The command line as ``python -m everhold``, where the folder of scripts is not on the path."""

from everhold.cli import main

if __name__ == "__main__":
    main()
