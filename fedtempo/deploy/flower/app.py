"""The Flower app that a run is submitted as; each side only imports the fedtempo installed there."""

from __future__ import annotations

from flwr.cli.build import build_fab_from_files

from fedtempo.deploy.flower import FLOWER

_FILES = {
    "pyproject.toml": f"""
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "fedtempo-app"
version = "1.0.0"
description = "A run of fedtempo on real clients"
license = "Apache-2.0"
dependencies = ["flwr=={FLOWER}"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "fedtempo"

[tool.flwr.app.components]
serverapp = "fedtempo_app.server:app"
clientapp = "fedtempo_app.client:app"

[tool.flwr.app.config]
""",
    "fedtempo_app/__init__.py": "",
    "fedtempo_app/client.py": "from fedtempo.deploy.flower.client_app import app\n\n__all__ = ['app']\n",
    "fedtempo_app/server.py": '''
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    """The server's side runs in `fedtempo deploy`, not in the SuperLink."""
    raise RuntimeError("start the SuperLink with `--isolation process`: `fedtempo deploy` is the server's side")
''',
}


def bundle() -> bytes:
    """Return the app as a Flower app bundle."""
    content: bytes = build_fab_from_files({name: text.encode() for name, text in _FILES.items()})[0]
    return content
