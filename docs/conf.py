"""How the documentation is built: no network, and a reference of commands made from the code itself."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.commands_page import write_commands_page
from docs.messages_page import write_messages_page
from docs.negotiation_states import write_negotiation_states
from docs.phases_pictures import write_phases

from holdall.protocols.registry import PROTOCOLS

project = "holdall"
author = "The holdall authors"
project_copyright = "The holdall authors, Apache-2.0"
release = installed_version("holdall")
version = release

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True

html_theme = "furo"
html_title = "holdall"
html_static_path = ["_static"]
html_show_sourcelink = False

write_commands_page(Path(__file__).parent / "reference" / "commands.md")
write_messages_page(Path(__file__).parent / "reference" / "messages.md")
write_phases(Path(__file__).parent / "_static" / "phases", frozenset(PROTOCOLS))
write_negotiation_states(Path(__file__).parent / "_static" / "phases")
