"""Shared by all tests: one thread, so that runs are repeatable and tests can share two cores."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
