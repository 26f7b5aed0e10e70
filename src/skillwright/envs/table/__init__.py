"""An environment over a file of rows: a prompt template and a scorer, without Python code."""

from skillwright.datasets.rows import Table as Table
from skillwright.envs.table.env import TableEnv as TableEnv
from skillwright.envs.table.settings import TableSettings as TableSettings
