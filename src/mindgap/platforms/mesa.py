"""A GPU in software: Mesa's lavapipe, a Vulkan device on the CPU, unpacked from Debian's archive without root.

Mesa 25 of bookworm-backports: 22.3 of bookworm itself is refused by Dawn. It needs glibc 2.34 or newer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from mindgap.platforms.recipe import DebianFile

_POOL: Final = "pool/main/"
_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"

_FILES: Final = (
    (
        "libdrm-amdgpu1",
        "libd/libdrm/libdrm-amdgpu1_2.4.123-1~bpo12+1_amd64.deb",
        "334e2ae389af0e9cb607c2ccfbbf7ae9feb34131ff998550baeffeeae6cda296",
    ),
    (
        "libdrm2",
        "libd/libdrm/libdrm2_2.4.123-1~bpo12+1_amd64.deb",
        "9cc2f341964286295124a32d3625edb76730500625e54a1e682761f883064d7b",
    ),
    (
        "mesa-vulkan-drivers",
        "m/mesa/mesa-vulkan-drivers_25.0.7-2~bpo12+1_amd64.deb",
        "3899f1800424c60a05df5d6913076a526ca8fdbabec43672cd397563d1ca3263",
    ),
    (
        "libwayland-client0",
        "w/wayland/libwayland-client0_1.23.0-1~bpo12+1_amd64.deb",
        "0f00e0f00b8746d6a02fbe6c91708d290c26271883778c555569444f97028d9c",
    ),
    (
        "libelf1",
        "e/elfutils/libelf1_0.188-2.1_amd64.deb",
        "619add379c606b3ac6c1a175853b918e6939598a83d8ebadf3bdfd50d10b3c8c",
    ),
    (
        "libexpat1",
        "e/expat/libexpat1_2.5.0-1+deb12u2_amd64.deb",
        "2255e62fc22a86d2c544b8a3f516da9aee19383ad5742722ab4ce7f66a30dbc8",
    ),
    (
        "libicu72",
        "i/icu/libicu72_72.1-3+deb12u1_amd64.deb",
        "f7f6f99c6d7b025914df2447fc93e11d22c44c0c8bdd8b6f36691c9e7ddcef88",
    ),
    (
        "libbsd0",
        "libb/libbsd/libbsd0_0.11.7-2_amd64.deb",
        "bb31cc8b40f962a85b2cec970f7f79cc704a1ae4bad24257a822055404b2c60b",
    ),
    (
        "libedit2",
        "libe/libedit/libedit2_3.1-20221030-2_amd64.deb",
        "1cf14abf2716d3279db12d0657a5737cf70074a1e71d3bdf73206625e3c89ce6",
    ),
    (
        "libffi8",
        "libf/libffi/libffi8_3.4.4-1_amd64.deb",
        "6d9f6c25c30efccce6d4bceaa48ea86c329a3432abb360a141f76ac223a4c34a",
    ),
    (
        "libmd0",
        "libm/libmd/libmd0_1.0.4-2_amd64.deb",
        "03539fd30c509e27101d13a56e52eda9062bdf1aefe337c07ab56def25a13eab",
    ),
    (
        "libx11-xcb1",
        "libx/libx11/libx11-xcb1_1.8.4-2+deb12u2_amd64.deb",
        "f5da45e1d881a793250a96613f28c471a248877f1a0f18a5c90e2a620a76c898",
    ),
    (
        "libxau6",
        "libx/libxau/libxau6_1.0.9-1_amd64.deb",
        "679db1c4579ec7c61079adeaae8528adeb2e4bf5465baa6c56233b995d714750",
    ),
    (
        "libxcb-dri3-0",
        "libx/libxcb/libxcb-dri3-0_1.15-1_amd64.deb",
        "02699b144b9467de8636d27a76984b8f4e7b66e2d25d96df2b9677be86ee9a29",
    ),
    (
        "libxcb-present0",
        "libx/libxcb/libxcb-present0_1.15-1_amd64.deb",
        "89383e627a4d17b9390d609b2459481bfd2029566367b43068586769e418b6e5",
    ),
    (
        "libxcb-randr0",
        "libx/libxcb/libxcb-randr0_1.15-1_amd64.deb",
        "f86e3d8ff8622871008833e9d064919b7a6237399c903c59fc330ff00f199ff5",
    ),
    (
        "libxcb-shm0",
        "libx/libxcb/libxcb-shm0_1.15-1_amd64.deb",
        "c1afcef29dc78b95c475159b181b28b1dedaf1d5aa06efd2fa6d90c73bfbe0e5",
    ),
    (
        "libxcb-sync1",
        "libx/libxcb/libxcb-sync1_1.15-1_amd64.deb",
        "3366ce715220d38dd0148b78a8e738137bade25ef7eec0698850c6f66800844f",
    ),
    (
        "libxcb-xfixes0",
        "libx/libxcb/libxcb-xfixes0_1.15-1_amd64.deb",
        "d744a7ebad2cbcf301c96cd6a1ab3ee856e436fc7be5cff5b7c28ac2ac181a64",
    ),
    (
        "libxcb1",
        "libx/libxcb/libxcb1_1.15-1_amd64.deb",
        "fdc61332a3892168f3cc9cfa1fe9cf11a91dc3e0acacbc47cbc50ebaa234cc71",
    ),
    (
        "libxdmcp6",
        "libx/libxdmcp/libxdmcp6_1.1.2-3_amd64.deb",
        "ecb8536f5fb34543b55bb9dc5f5b14c9dbb4150a7bddb3f2287b7cab6e9d25ef",
    ),
    (
        "libxml2",
        "libx/libxml2/libxml2_2.9.14+dfsg-1.3~deb12u6_amd64.deb",
        "4460e39dda10a815881374217cde08474747cfa018358cd8612c14b390eff53b",
    ),
    (
        "libxshmfence1",
        "libx/libxshmfence/libxshmfence1_1.3-1_amd64.deb",
        "1a38142e40e3d32dc4f9a326bf5617363b7d9b4bb762fdcdd262f2192092024d",
    ),
    (
        "libllvm15",
        "l/llvm-toolchain-15/libllvm15_15.0.6-4+b1_amd64.deb",
        "9f0751109ba89e65b1313a4f3e34a29977a0db6fa30ed475e2c6bd555fa9e866",
    ),
    (
        "libvulkan1",
        "v/vulkan-loader/libvulkan1_1.3.239.0-1_amd64.deb",
        "622f28b807ba55a1f5ad1622ff83aa2c5b11fedbec074850e04c10a8f28b43d3",
    ),
    (
        "libz3-4",
        "z/z3/libz3-4_4.8.12-3.1_amd64.deb",
        "6221ca25ad5abcfbe1965801029d85a88b4775320384b4b716de8fab7a4d2f7a",
    ),
)

FILES: Final = tuple(DebianFile(name, _POOL + path, digest) for name, path, digest in _FILES)

ENV: Final = {
    "VK_DRIVER_FILES": "{root}/lavapipe.json",
    "VK_ICD_FILENAMES": "{root}/lavapipe.json",  # what older loaders read
    "LD_LIBRARY_PATH": f"{{root}}/system/{_LIBRARIES}",
    "LP_NUM_THREADS": "1",
}
"""Variables of a worker that uses it and no other Vulkan device."""


def describe(root: Path) -> None:
    """Write the file by which Vulkan's loader finds the driver where it was unpacked."""
    driver = root / "system" / _LIBRARIES / "libvulkan_lvp.so"
    content = {"file_format_version": "1.0.0", "ICD": {"library_path": str(driver), "api_version": "1.4.305"}}
    (root / "lavapipe.json").write_text(json.dumps(content))
