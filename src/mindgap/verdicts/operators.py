"""How operators round: which are exact, which round once, and which round inside."""

from __future__ import annotations

import functools
from enum import Enum
from typing import Final

from mindgap.program.graph import Node


class Rounding(Enum):
    """Where an operator loses precision."""

    EXACT = "exact"
    """Its result is one of its arguments' values, or an exact function of them."""
    ONCE = "once"
    """A correctly rounded (or nearly so) function of its arguments: noise on the result is enough."""
    ABSOLUTE = "absolute"
    """An activation that common formulas compute by cancellation (`0.5 x (1 + erf)`): the error follows |x|."""
    INSIDE = "inside"
    """Sums, products, normalisations: rounding happens before the result, so arguments get noise too."""


@functools.cache
def base_name(op: str) -> str:
    """`add` of `aten.add_.Tensor`."""
    parts = op.split(".")
    name = parts[1] if len(parts) > 1 else op
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


EXACT: Final = _words(
    # views and copies
    """view reshape _unsafe_view expand expand_as permute transpose t numpy_T mT mH adjoint squeeze unsqueeze slice
    select narrow split split_with_sizes tensor_split chunk unbind unfold diagonal as_strided alias detach lift_fresh
    lift_fresh_copy clone contiguous copy _reshape_alias flatten unflatten movedim swapaxes view_as view_as_real
    view_as_complex real imag conj _conj _conj_physical conj_physical resolve_conj resolve_neg positive flip fliplr
    flipud roll rot90 cat concat concatenate stack hstack vstack dstack column_stack repeat repeat_interleave tile
    broadcast_to broadcast_tensors meshgrid pixel_shuffle pixel_unshuffle channel_shuffle ravel atleast_1d atleast_2d
    atleast_3d getitem view_copy expand_copy permute_copy squeeze_copy unsqueeze_copy slice_copy select_copy
    _neg_view set detach_copy block_diag native_channel_shuffle
    """
    # selection by index
    """index index_select gather take take_along_dim masked_select masked_fill masked_scatter where scatter index_copy
    index_fill slice_scatter select_scatter diagonal_scatter as_strided_scatter constant_pad_nd pad _pad_enum
    reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
    _unsafe_index embedding im2col one_hot tril triu diag diag_embed upsample_nearest1d upsample_nearest2d
    upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d max_unpool2d
    max_unpool3d fill_diagonal trace_indices put
    """
    # creation
    """fill zero zeros ones full empty zeros_like ones_like full_like empty_like empty_strided new_zeros new_ones
    new_full new_empty new_empty_strided arange eye tril_indices triu_indices scalar_tensor tensor resize
    rand randn randint randperm rand_like randn_like randint_like bernoulli multinomial normal uniform exponential
    """
    # comparison, order and sign
    """neg negative abs absolute sign sgn relu relu6 hardtanh clamp clamp_min clamp_max clip maximum minimum fmax fmin
    max min amax amin aminmax _aminmax argmax argmin sort argsort msort topk kthvalue median nanmedian mode cummax
    cummin max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices
    max_pool3d_with_indices adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d
    fractional_max_pool3d eq ne lt le gt ge not_equal less less_equal greater greater_equal equal isnan isinf
    isfinite isneginf isposinf isin isreal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or
    bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__
    nonzero nonzero_static unique _unique2 unique_consecutive unique_dim bincount searchsorted bucketize heaviside
    copysign nextafter frexp signbit nan_to_num threshold hardshrink any all count_nonzero is_nonzero item
    _local_scalar_dense allclose isclose argwhere histc _assert_tensor_metadata _assert_async sym_size sym_numel
    """
    # exact arithmetic
    "floor ceil round trunc fix frac remainder fmod floor_divide ldexp gcd lcm"
)

ONCE: Final = _words(
    """add sub subtract rsub mul multiply div divide true_divide addcmul addcdiv lerp sqrt rsqrt reciprocal square
    hardswish hardsigmoid leaky_relu prelu _prelu_kernel rrelu rrelu_with_noise softshrink dropout native_dropout
    alpha_dropout feature_dropout linspace logspace deg2rad rad2deg exp exp2 expm1 log log2 log10 log1p sin cos tan
    asin acos atan arcsin arccos arctan sinh cosh tanh asinh acosh atanh arcsinh arccosh arctanh sigmoid erf erfc
    erfinv logit sinc silu softsign xlogy logaddexp logaddexp2 hypot atan2 arctan2 special_expit special_log1p
    special_expm1 special_erf special_erfc special_xlogy special_exp2 to _to_copy type_as complex polar angle glu
    _foreach_add _foreach_sub _foreach_mul _foreach_div _foreach_sqrt _foreach_reciprocal _foreach_addcmul
    _foreach_addcdiv _foreach_lerp
    """
)

LIBRARY: Final = _words(
    """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan arcsin arccos arctan sinh cosh tanh asinh acosh
    atanh arcsinh arccosh arctanh sigmoid erf erfc erfinv logit sinc silu xlogy logaddexp logaddexp2 hypot atan2
    arctan2 special_expit special_log1p special_expm1 special_erf special_erfc special_xlogy special_exp2
    """
)
"""Functions of mathematical libraries: not correctly rounded, so twice the noise of arithmetic (OpenCL allows its
vendors 3 units for exp and log, 5 for tan, 16 for erf)."""

SCANS: Final = frozenset({"cumsum", "cumprod", "logcumsumexp"})
"""Running sums: computed one term after the other almost everywhere."""

ABSOLUTE: Final = _words("gelu mish softplus log_sigmoid log_sigmoid_forward elu celu selu tanhshrink gelu_quick")

PRODUCTS: Final[dict[str, tuple[int, int]]] = {
    "mm": (0, 1), "bmm": (0, 1), "matmul": (0, 1), "dot": (0, 1), "vdot": (0, 1), "mv": (0, 1), "inner": (0, 1),
    "linear": (0, 1), "addmm": (1, 2), "addmv": (1, 2), "baddbmm": (1, 2), "addbmm": (1, 2), "addr": (1, 2),
    "bilinear": (0, 1), "tensordot": (0, 1), "outer": (0, 1), "kron": (0, 1),
    "convolution": (0, 1), "_convolution": (0, 1), "conv1d": (0, 1), "conv2d": (0, 1), "conv3d": (0, 1),
    "conv_transpose1d": (0, 1), "conv_transpose2d": (0, 1), "conv_transpose3d": (0, 1), "mkldnn_convolution": (0, 1),
}  # fmt: skip
"""Products and where their two factors stand: noise on the smaller one stands for noise on both."""

CONVOLUTIONS: Final = frozenset(name for name in PRODUCTS if "conv" in name)

FIRST_ONLY: Final = _words(
    """layer_norm native_layer_norm rms_norm _fused_rms_norm group_norm native_group_norm batch_norm native_batch_norm
    _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
    _batch_norm_with_update _batch_norm_no_update instance_norm cudnn_batch_norm miopen_batch_norm
    softmax _softmax log_softmax _log_softmax sum mean prod var std var_mean std_mean norm linalg_vector_norm
    logsumexp cumsum cumprod logcumsumexp nansum nanmean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d lstm gru rnn_tanh rnn_relu
    """
)
"""Operators that round inside over their first argument; the others are weights or running statistics."""

_DROPOUTS: Final = _words("dropout alpha_dropout feature_dropout native_dropout")

SCATTERS: Final = _words("index_put scatter put _index_put_impl _unsafe_index_put")
"""Exact unless they accumulate."""


@functools.cache
def rounding(op: str) -> Rounding:
    """Where the operator rounds; an unknown one is taken to round inside."""
    name = base_name(op)
    if op.startswith(("operator.", "math.", "torch.")) or name in EXACT:
        return Rounding.EXACT
    if op.startswith(("aten.div.", "aten.div_.", "aten.divide.")) and "_mode" in op:
        return Rounding.EXACT  # floor and trunc of a quotient: a defined integer, not a rounded value
    if name in ONCE:
        return Rounding.ONCE
    return Rounding.ABSOLUTE if name in ABSOLUTE else Rounding.INSIDE


@functools.cache
def _always_exact(op: str) -> bool:
    return rounding(op) is Rounding.EXACT and base_name(op) not in SCATTERS


def may_round(node: Node) -> bool:
    """Whether the call of a node may round; dropout in evaluation mode, for one, returns its argument."""
    if base_name(node.op) in _DROPOUTS and False in node.args[2:3]:
        return False
    return not _always_exact(node.op)
