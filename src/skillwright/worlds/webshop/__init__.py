"""WebShop: shopping by text, with its exact reward.

Pages, rules and rewards of WebShop (arXiv:2207.01206) are rebuilt without Java and web server; all
episodes of a process share one read-only catalogue. A catalogue of a thousand invented products is
built in; the original's can be imported.
"""

from skillwright.worlds.webshop.catalogue import Catalogue as Catalogue
from skillwright.worlds.webshop.catalogue import CatalogueSource as CatalogueSource
from skillwright.worlds.webshop.catalogue import imported_path as imported_path
from skillwright.worlds.webshop.catalogue import index_with_tantivy as index_with_tantivy
from skillwright.worlds.webshop.catalogue import open_catalogue as open_catalogue
from skillwright.worlds.webshop.env import WebShopEnv as WebShopEnv
from skillwright.worlds.webshop.goals import CATEGORIES as CATEGORIES
from skillwright.worlds.webshop.goals import category_of as category_of
from skillwright.worlds.webshop.goals import webshop_tasks as webshop_tasks
from skillwright.worlds.webshop.importer import import_webshop as import_webshop
from skillwright.worlds.webshop.product import Goal as Goal
from skillwright.worlds.webshop.product import Product as Product
from skillwright.worlds.webshop.product import Wish as Wish
from skillwright.worlds.webshop.reward import Grade as Grade
from skillwright.worlds.webshop.reward import grade as grade
from skillwright.worlds.webshop.session import Session as Session
