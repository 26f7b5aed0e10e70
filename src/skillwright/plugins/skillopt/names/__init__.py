"""The names under the module paths of `skillopt`, one file per group of modules.

Each file has a table ``MODULES``: path -> name -> our object. Functions whose signature differs
from ours are wrapped.
"""
