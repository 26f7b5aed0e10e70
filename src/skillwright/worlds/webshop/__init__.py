"""WebShop: shopping by text, with its exact reward.

Pages, rules and rewards of WebShop (arXiv:2207.01206) are rebuilt without Java and web server; all
episodes of a process share one read-only catalogue. A catalogue of a thousand invented products is
built in; the original's can be imported.
"""

from skillwright.worlds.webshop.catalogue import (
    Catalogue,
    CatalogueSource,
    imported_path,
    index_with_tantivy,
    open_catalogue,
)
from skillwright.worlds.webshop.env import WebShopEnv
from skillwright.worlds.webshop.goals import (
    CATEGORIES,
    WebShopEnvConfig,
    category_of,
    webshop_tasks,
)
from skillwright.worlds.webshop.importer import Imported, import_webshop
from skillwright.worlds.webshop.product import Goal, Product, Wish
from skillwright.worlds.webshop.reward import Grade, grade
from skillwright.worlds.webshop.session import Session

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
