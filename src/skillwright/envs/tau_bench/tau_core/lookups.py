"""Tools that only read."""

from typing import Any, Final

from skillwright.envs.tau_bench.tau_core.database import Database

NO_USER: Final = "Error: user not found"
NO_ORDER: Final = "Error: order not found"
NO_PRODUCT: Final = "Error: product not found"


def find_user_id_by_email(db: Database, email: Any) -> str:
    """Return the id of the first user with this address; upper and lower case are equal."""
    return db.tables.user_id_by_email.get(email.lower(), NO_USER)


def find_user_id_by_name_zip(db: Database, first_name: Any, last_name: Any, zip: Any) -> str:
    """Return the id of the first user of this name, in any case, and exactly this zip code."""
    for user_id in db.tables.user_ids_by_first_name.get(first_name.lower(), ()):
        # Names never change, but a zip code may have, in this episode.
        user = db.user(user_id)
        if user is None or user["name"]["last_name"].lower() != last_name.lower():
            continue
        if user["address"]["zip"] == zip:
            return user_id
    return NO_USER


def get_user_details(db: Database, user_id: Any) -> str:
    """Return a user as JSON."""
    return NO_USER if db.user(user_id) is None else db.text("users", user_id)


def get_order_details(db: Database, order_id: Any) -> str:
    """Return an order as JSON."""
    return NO_ORDER if db.order(order_id) is None else db.text("orders", order_id)


def get_product_details(db: Database, product_id: Any) -> str:
    """Return a product with all its variants as JSON."""
    return NO_PRODUCT if db.product(product_id) is None else db.text("products", product_id)


def list_all_product_types(db: Database) -> str:
    """Return product name -> product id as JSON, sorted by name."""
    return db.tables.product_types
