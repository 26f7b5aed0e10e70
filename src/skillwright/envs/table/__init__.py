"""A file of rows as an environment: a prompt over the columns, and a scorer, without Python."""

from skillwright.datasets.rows import Table
from skillwright.envs.table.env import TableEnv
from skillwright.envs.table.settings import TableSettings

__all__ = ["Table", "TableEnv", "TableSettings"]
