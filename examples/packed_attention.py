"""Attention on a packed query, key and value, as timm's vision transformers compute it.

As many tokens as heads: the two dimensions that are swapped have the same size, and whoever fuses these operators must
not mistake one for the other. Try: mindgap check examples/packed_attention.py
"""

import torch

TOKENS = HEADS = 12
WIDTH = 64


class PackedAttention(torch.nn.Module):
    def forward(self, packed: torch.Tensor) -> torch.Tensor:
        query, key, value = packed.reshape(1, TOKENS, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4).unbind(0)
        attended = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return attended.transpose(1, 2).reshape(1, TOKENS, HEADS * WIDTH)


model = PackedAttention().eval()


def inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, TOKENS, 3 * HEADS * WIDTH, generator=torch.Generator().manual_seed(0)),)
