"""Puts the dashboard's page into a wheel. Where npm is missing the wheel is made without: a node's HTTP API works all the same."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Dashboard(BuildHookInterface[Any]):
    """Runs `scripts/dashboard`; not for an editable install, whose folder has the page whenever it is built there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        script = Path(self.root) / "scripts" / "dashboard"
        if shutil.which("npm") is None or subprocess.run([script], check=False).returncode != 0:
            self.app.display_warning(
                "the dashboard is not built: it needs node 18 or later, npm and its registry"
            )
