"""Read-only web pages over runs, for this machine only, and the same content as one file.

app = make_app(Path("runs"), token=new_token())      # an ASGI app
html_report(Path("runs/demo"))                       # one file that can be mailed
"""

from skillwright.core.loopback import new_token as new_token
from skillwright.dashboard.app import make_app as make_app
from skillwright.dashboard.report import html_report as html_report
from skillwright.dashboard.report import markdown_report as markdown_report
from skillwright.dashboard.site import is_bank as is_bank
