"""Settings of all tests."""

import signal

from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("fedtempo", deadline=None)
settings.load_profile("fedtempo")

# A shell's background jobs ignore Ctrl-C, and so does what they start: tests that press it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
