"""Attention scores with a relative-position bias, as T5- and Swin-like models compute it.

The bucket of a pair of positions is an integer floor division, and half of the distances are negative: rounding
towards zero instead of down picks another bias. Try: mindgap check examples/relative_position.py
"""

import torch


class RelativePositionBias(torch.nn.Module):
    def __init__(self, heads: int = 4, buckets: int = 16) -> None:
        super().__init__()
        self.buckets = buckets
        self.bias = torch.nn.Embedding(2 * buckets, heads)

    def forward(self, scores: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        distance = positions[None, :] - positions[:, None]
        bucket = torch.div(distance, 2, rounding_mode="floor") + self.buckets
        return torch.softmax(scores + self.bias(bucket).permute(2, 0, 1), dim=-1)


torch.manual_seed(0)
model = RelativePositionBias().eval()


def inputs() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, 12, 12, generator=generator), torch.arange(12)
