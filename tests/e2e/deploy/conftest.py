"""The deploy files on a control plane that notes who asks for what."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.deploy.installed import DEPLOY, Installed
from tests.e2e.deploy.rights import AUDIT_POLICY
from tests.testbed.control_plane import running_control_plane
from tests.testbed.native_gangs import API_SERVER_FLAGS


@pytest.fixture(scope="package")
def installed(
    testbed_binaries: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    home = tmp_path_factory.mktemp("rbac")
    policy, audit_log = home / "policy.yaml", home / "audit.log"
    policy.write_text(AUDIT_POLICY)
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}"]
    flags += API_SERVER_FLAGS  # so that all kinds are served that the parts have rights to
    with running_control_plane(api_server_flags=flags) as plane:
        made = Installed(plane, home, audit_log)
        made.kubectl.ok("apply", "-k", str(DEPLOY))
        yield made
