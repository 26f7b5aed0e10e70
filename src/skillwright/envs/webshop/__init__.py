"""WebShop: shopping by text, and its exact reward.

Pages, rules and rewards are those of WebShop (arXiv:2207.01206), rebuilt: no Java, no web server,
one read-only catalogue for all episodes of a process. A shop of a thousand made-up products is
built in; the original's can be imported.
"""

from skillwright.envs.webshop.catalogue import (
    Catalogue,
    CatalogueSource,
    imported_path,
    index_with_tantivy,
    open_catalogue,
)
from skillwright.envs.webshop.env import WebShopEnv
from skillwright.envs.webshop.goals import CATEGORIES, WebShopEnvConfig, category_of, webshop_tasks
from skillwright.envs.webshop.importer import Imported, import_webshop
from skillwright.envs.webshop.product import Goal, Product, Wish
from skillwright.envs.webshop.reward import Grade, grade
from skillwright.envs.webshop.session import Session

__all__ = [
    "CATEGORIES",
    "Catalogue",
    "CatalogueSource",
    "Goal",
    "Grade",
    "Imported",
    "Product",
    "Session",
    "WebShopEnv",
    "WebShopEnvConfig",
    "Wish",
    "category_of",
    "grade",
    "import_webshop",
    "imported_path",
    "index_with_tantivy",
    "open_catalogue",
    "webshop_tasks",
]
