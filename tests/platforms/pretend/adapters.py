"""The device as platforms: eager, and the front half of torch.compile."""

from __future__ import annotations

from typing import ClassVar

from mindgap.platforms.torch.compiled import AotEager
from mindgap.platforms.torch.devices import Device
from mindgap.platforms.torch.eager import Eager

TABLE = {
    "pretend": Device(
        "pretend",
        install="nothing to install",
        package="tests.platforms.pretend.package",
        available="torch.pretend:is_available",
        label="torch.pretend:get_device_name",
        synchronise="torch.pretend:synchronize",
    )
}


class PretendEager(Eager):
    device_table: ClassVar = TABLE


class PretendAot(AotEager):
    device_table: ClassVar = TABLE
