from __future__ import annotations

import pytest

from mindgap.corpus.sources.pytorchcv import LARGE, STRIDE, smaller


@pytest.mark.parametrize("size", [(224, 224), (480, 480), (1024, 2048), (473, 473)])
def test_only_large_images_become_smaller_and_keep_their_stride(size: tuple[int, int]) -> None:
    found = smaller(size)
    assert (found == size) == (size[0] * size[1] <= LARGE or size[0] % (2 * STRIDE) != 0)
    assert size[0] * found[1] == size[1] * found[0]
    assert found == size or (found[0] * found[1] <= LARGE // 4 and found[0] % STRIDE == 0)
