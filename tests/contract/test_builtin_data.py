"""The data files that describe the built-in kinds are what the pinned real server says today."""

from __future__ import annotations

from tests.testbed.control_plane import ControlPlane
from tools.fetch_builtin_schemas import DATA_DIR, builtin_data, server_from_kubeconfig

REFRESH = "python -m tools.fetch_builtin_schemas"


def test_builtin_data_is_what_the_server_says(control_plane: ControlPlane) -> None:
    """Fetching again gives the checked-in files, byte for byte."""
    for name, fetched in builtin_data(server_from_kubeconfig(control_plane.kubeconfig)).items():
        assert (DATA_DIR / name).read_bytes() == fetched, f"run `{REFRESH}`"
