"""`python -m fedtempo` is the command `fedtempo`."""

from fedtempo.cli.app import main

if __name__ == "__main__":
    main()
