"""The version of Skillwright: what every package may know of it."""

__version__ = "0.1.0"
