"""What every test may ask for by name, and how examples are drawn."""

import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.figures", "tests.lanes", "tests.testbed.plugin")

# How long an example takes says nothing on a busy machine.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# A script starts programs in the background with Ctrl-C ignored, and programs that tests start and
# interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
