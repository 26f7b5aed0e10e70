"""A server of tools as people write them, for tests; ``python mcp_shop.py [http PORT]``."""

import os
import signal
import sys
import time
from pathlib import Path

try:
    from mcp.server.mcpserver import MCPServer as Server  # mcp 2
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server

PRICES = {"lamp": 12, "rug": 30, "vase": 7}

shop = Server("shop")
basket: list[str] = []


@shop.tool()
def price(item: str) -> str:
    """Say what an item costs."""
    if item not in PRICES:
        raise ValueError(f"no {item} here")
    return f"{item}: {PRICES[item]}"


@shop.tool()
def add(item: str, count: int = 1) -> str:
    """Put items into the basket, and say how many are in it."""
    basket.extend([item] * count)
    return f"{len(basket)} in the basket"


@shop.tool()
def token() -> str:
    """Say what the server knows of its environment."""
    return f"{os.environ.get('SHOP_TOKEN')} {os.environ.get('SHOP_OTHER')}"


@shop.tool()
def die() -> str:
    """End the server."""
    sys.stderr.write("out of memory\n")
    sys.stderr.flush()
    os._exit(3)


@shop.tool()
def interrupt() -> str:
    """Press Ctrl-C where the agent plays, and never answer."""
    os.kill(int(sys.argv[-1]), signal.SIGINT)
    return hang()


@shop.tool()
def hang() -> str:
    """Never answer."""
    time.sleep(600)
    return "late"


def main() -> None:
    if file := os.environ.get("SHOP_PIDS"):
        with Path(file).open("a", encoding="utf-8") as pids:
            pids.write(f"{os.getpid()}\n")
    if sys.argv[1:2] == ["http"]:
        port = int(sys.argv[2])
        if hasattr(shop.settings, "port"):
            shop.settings.port = port
            shop.run("streamable-http")
        else:
            shop.run("streamable-http", port=port)
    else:
        shop.run()


if __name__ == "__main__":
    main()
