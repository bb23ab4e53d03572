"""Shared by all tests: one thread, so that runs are repeatable and tests can share two cores; and no law that fails
because the machine is busy."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
