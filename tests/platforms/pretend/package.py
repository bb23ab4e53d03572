"""What a vendor's package does when it is imported: load the library, name the device, register its module."""

from __future__ import annotations

import os
from types import ModuleType

import torch
from torch.utils import generate_methods_for_privateuse1_backend, rename_privateuse1_backend

from tests.platforms.pretend.building import LIBRARY

torch.ops.load_library(os.environ[LIBRARY])
rename_privateuse1_backend("pretend")

module = ModuleType("torch.pretend")
module.is_available = lambda: True  # type: ignore[attr-defined]
module.device_count = lambda: 1  # type: ignore[attr-defined]
module.current_device = lambda: 0  # type: ignore[attr-defined]
module.get_device_name = lambda index=0: "Pretend 1"  # type: ignore[attr-defined]
module.synchronize = lambda index=None: None  # type: ignore[attr-defined]
module._is_in_bad_fork = lambda: False  # type: ignore[attr-defined]
module.manual_seed_all = lambda seed: None  # type: ignore[attr-defined]
module.get_amp_supported_dtype = lambda: [torch.float16]  # type: ignore[attr-defined]
torch._register_device_module("pretend", module)
generate_methods_for_privateuse1_backend()
