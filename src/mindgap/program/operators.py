"""The operator table: what is known about an operator beyond torch's schema.

A row stands for every operator that it names: `add` for all overloads of `add` and `add_`, `div.Tensor_mode` for that
overload of both alone. An operator is named once. To add one, add its name to the row that describes it, or add a row:
`tests/program/test_operators.py` checks each row against the schemas. Whether an operator is random, and what it writes
and aliases, comes from its schema and tags (`program/ops.py`).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal


class Rounding(Enum):
    """Where an operator loses precision."""

    EXACT = "exact"
    """Its result is one of its arguments' values, or an exact function of them."""
    ONCE = "once"
    """A correctly rounded (or nearly so) function of its arguments: noise on the result is enough."""
    ABSOLUTE = "absolute"
    """An activation that common formulas compute by cancellation (`exp(x) - 1`): the error follows 1, or |x|."""
    INSIDE = "inside"
    """Sums, products, normalisations: rounding happens before the result, so arguments get noise too."""


class Terms(Enum):
    """What an operator adds up for one element of its result."""

    ONE = "nothing, or a few"
    INNER = "the last dimension of its first factor"
    KERNEL = "one filter of its second factor"
    NORMALISED = "the shape that its second argument gives"
    CHANNEL = "all but the second dimension"
    WINDOW = "one window of its last dimensions"
    LAST = "the last dimension of its first argument"
    COUNTED = "as many as it makes of ones: what lands on one index, what an equation contracts"
    SEQUENCE = "the longer of the last two dimensions"
    DIM = "the dimension that its second argument names"
    DIMS = "the dimensions that it reduces; all of them when it names none"


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known about an operator; the defaults are assumed of an unknown one."""

    rounding: Rounding = Rounding.INSIDE
    ulps: int = 1
    """Noise on a result that rounds once: functions of mathematical libraries are not correctly rounded, so twice that
    of arithmetic (OpenCL allows its vendors 3 units for exp and log, 5 for tan, 16 for erf)."""
    follows_argument: bool = False  # its absolute error follows |x| (`0.5 x (1 + erf)`), not 1
    operands: tuple[int, ...] = ()
    """Positions of what it adds up: the two factors of a product (noise on the smaller one stands for noise on both),
    or one argument, where the others are weights and statistics. Empty: all arguments."""
    terms: Terms = Terms.ONE
    adds: bool = False  # a plain sum or mean
    sums: bool = False  # it adds up products of its tensors' elements: of |elements| it makes the sum of |terms|
    cancels: bool = False  # a product or another function that rounds, and then one sum that may cancel it
    averages: bool = False  # and divides the sum by their number
    transforms: bool = False  # a Fourier transform: adds up everything along `dim`, times factors of size 1
    centres: bool = False  # it takes the mean of some elements from each of them
    scans: bool = False  # a running sum, or one by index: computed one term after the other almost everywhere
    recurs: bool = False  # a polynomial of its first argument, made one degree after the other up to its second
    distance: bool = False  # it may be computed as |x|^2 + |y|^2 - 2xy
    interpolates: bool = False  # it computes positions in its first argument
    casts: bool = False  # it rounds only when it makes a type narrower
    drops: bool = False  # it returns its first argument when its third, `train`, is False

    unspecified: tuple[str, ...] = ()
    """The rules of unspecified behaviour that a call may fall under (`verdicts/unspecified`)."""
    indices: int | None = None
    """Which of its results points into its first argument."""
    distinct: bool = False  # no two of those indices are the same

    view: bool = False  # its result holds the very numbers of its first argument: no sample is needed to know them
    selects: bool = False  # it only takes a part of a tensor
    indexed: bool = False  # it reads or adds at indices that it is given, and refuses those out of range
    blanks: bool = False  # it makes a part of a tensor blank on purpose
    clips: bool = False  # it gives one number for all that lies beyond a bound
    shares: bool = False  # its result is always the same along an axis with one element
    borrows: bool = False  # it takes no numbers from a tensor, at most its shape and dtype
    lends: bool = False  # its second argument lends its shape or dtype, never its numbers
    asserts: bool = False  # it only checks what it is given
    reshapes: bool = False  # it is given the sizes of its result, which has as many elements as its argument
    sized: bool = False  # it is given sizes, or how often to repeat, and makes as many elements as they ask
    grows: bool = False  # its result may be much larger than what it reads
    codes: tuple[tuple[str, int], ...] = ()
    """Numbers that stand for names, and how many names there are; for others eager gives whatever was in memory."""
    ascending: tuple[str, ...] = ()
    """Arguments whose elements must not decrease, although eager checks only the first and the last of them."""
    traps: bool = False  # of whole numbers a single instruction: the smallest divided by -1 ends the process
    writes: tuple[str, ...] = ()
    """Arguments that it writes to although its schema does not say so."""

    rank: int = 0
    """The rank that its first tensor must have; 0 is any."""
    takes: Literal["", "whole", "boolean", "complex", "pairs", "square", "matrices"] = ""
    """What else its first tensor must be: whole numbers, pairs along the last dimension, one square matrix, or a matrix
    with as many columns as the second one has rows."""
    spatial: int = 0
    """The spatial dimensions that its name states, 2 of `conv2d`: read from the name, not from the row."""


EXACT, ONCE, ABSOLUTE = Rounding.EXACT, Rounding.ONCE, Rounding.ABSOLUTE
_FIRST, _BOTH, _LAST_TWO = (0,), (0, 1), (1, 2)
_STATISTICS = ("running_mean", "running_var")
_GRID_CODES = (("interpolation_mode", 3), ("padding_mode", 3))

TABLE: Final[tuple[tuple[Traits, str], ...]] = (
    # Views and copies
    (Traits(EXACT, view=True), """alias detach flatten unflatten movedim permute squeeze unsqueeze swapaxes
        swapdims transpose"""),
    (Traits(EXACT, view=True, rank=2), "t"),
    (Traits(EXACT, view=True, selects=True), "slice select narrow split split_with_sizes chunk unbind"),
    (Traits(EXACT, view=True, lends=True), "expand_as reshape_as view_as"),
    (Traits(EXACT, view=True, reshapes=True), "view reshape"),
    (Traits(EXACT, reshapes=True), "_unsafe_view"),
    (Traits(EXACT, unspecified=("nan-bits",)), "view.dtype"),
    (Traits(EXACT, view=True, sized=True, grows=True), "expand"),
    (Traits(EXACT, sized=True, grows=True), "repeat"),
    (Traits(EXACT, grows=True), """repeat_interleave tile meshgrid stack hstack vstack dstack column_stack row_stack
        block_diag expand_copy unfold"""),
    (Traits(EXACT, rank=2), "mT fliplr flipud rot90"),
    (Traits(EXACT, rank=4), "pixel_shuffle pixel_unshuffle channel_shuffle"),
    (Traits(EXACT, takes="complex"), "real imag view_as_real"),
    (Traits(EXACT, takes="pairs"), "view_as_complex"),
    (Traits(EXACT), """numpy_T mH adjoint tensor_split as_strided lift_fresh lift_fresh_copy clone contiguous
        _reshape_alias conj _conj _conj_physical conj_physical resolve_conj resolve_neg positive _neg_view flip roll cat
        concat concatenate broadcast_to broadcast_tensors native_channel_shuffle ravel atleast_1d atleast_2d atleast_3d
        view_copy permute_copy squeeze_copy unsqueeze_copy slice_copy select_copy detach_copy set"""),
    (Traits(EXACT, unspecified=("float-to-integer",)), "copy"),
    (Traits(EXACT, unspecified=("resized-memory",)), "resize"),
    # Selection by index
    (Traits(EXACT, selects=True), "diagonal operator.getitem"),
    (Traits(EXACT, selects=True, indexed=True, grows=True), "index index_select gather"),
    (Traits(EXACT, indexed=True, grows=True), "embedding take_along_dim"),
    (Traits(indexed=True, terms=Terms.COUNTED, scans=True, sums=True), "scatter_add index_add"),
    (Traits(EXACT, unspecified=("duplicate-writes",)), """scatter index_copy put index_put _index_put_impl
        _unsafe_index_put"""),
    (Traits(EXACT, blanks=True), "masked_fill"),
    (Traits(EXACT, blanks=True, takes="boolean"), "where"),
    (Traits(EXACT, blanks=True, rank=2), "tril triu"),
    (Traits(EXACT, blanks=True, grows=True), "constant_pad_nd pad"),
    (Traits(EXACT, grows=True), """_pad_enum reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
        replication_pad2d replication_pad3d upsample_nearest1d upsample_nearest2d upsample_nearest3d take
        _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d _unsafe_index one_hot diag_embed
        """),
    (Traits(EXACT, grows=True, rank=4), "im2col"),
    (Traits(EXACT, grows=True, rank=2), "diag"),
    (Traits(EXACT), """masked_select masked_scatter index_fill slice_scatter select_scatter diagonal_scatter
        as_strided_scatter max_unpool2d max_unpool3d fill_diagonal"""),
    # Creation
    (Traits(EXACT, borrows=True), """arange eye scalar_tensor tril_indices triu_indices fill zero zeros_like ones_like
        full_like rand_like randn_like randint_like randn randint randperm"""),
    (Traits(EXACT, borrows=True, sized=True, grows=True), "zeros ones full rand new_zeros new_ones new_full"),
    (Traits(EXACT, borrows=True, sized=True, unspecified=("uninitialised-memory",)), "empty"),
    (Traits(EXACT, borrows=True, grows=True, unspecified=("uninitialised-memory",)), """empty_like empty_strided
        empty_permuted new_empty new_empty_strided"""),
    (Traits(EXACT), "bernoulli multinomial normal uniform exponential"),
    # Comparison, order, sign and whole parts
    (Traits(EXACT, clips=True), "relu relu6 hardtanh threshold clamp clamp_min"),
    (Traits(EXACT, indices=1, unspecified=("tie-order",)), "kthvalue max min cummax cummin"),
    (Traits(EXACT, indices=1, unspecified=("tie-order", "empty-reduction")), "median nanmedian mode"),
    (Traits(EXACT, indices=1, unspecified=("tie-order",), distinct=True), "sort"),
    (Traits(EXACT, indices=1, unspecified=("tie-order", "unsorted"), distinct=True), "topk"),
    (Traits(EXACT, indices=0, unspecified=("tie-order",), distinct=True), "argsort"),
    (Traits(EXACT, indices=0, unspecified=("tie-order",)), "argmax argmin"),
    (Traits(EXACT, indices=1), """max_pool2d_with_indices max_pool3d_with_indices
        adaptive_max_pool2d adaptive_max_pool3d"""),
    (Traits(EXACT), "max_pool1d max_pool2d max_pool3d"),
    (Traits(EXACT, unspecified=("unsorted",)), "_unique2"),
    (Traits(EXACT, unspecified=("nan-bits",)), "signbit copysign"),
    (Traits(EXACT, takes="boolean"), "logical_and logical_or logical_xor logical_not"),
    (Traits(EXACT, takes="whole"), "bitwise_and bitwise_or bitwise_xor bitwise_not"),
    (Traits(EXACT), """neg negative abs absolute sign sgn clamp_max clip maximum minimum fmax fmin amax amin aminmax
        _aminmax msort max_pool1d_with_indices adaptive_max_pool1d fractional_max_pool2d fractional_max_pool3d eq ne lt
        le gt ge not_equal less less_equal greater greater_equal equal isnan isinf isfinite isneginf isposinf isin
        isreal __and__ __or__ __xor__ nonzero nonzero_static unique_consecutive unique_dim bincount searchsorted
        bucketize heaviside nextafter frexp nan_to_num hardshrink any all count_nonzero is_nonzero item
        _local_scalar_dense allclose isclose argwhere histc sym_size sym_numel floor ceil round trunc fix frac
        ldexp"""),
    (Traits(EXACT, asserts=True), """_assert_tensor_metadata _assert_async _assert_scalar sym_constrain_range
        sym_constrain_range_for_size"""),
    # Arithmetic of whole numbers
    (Traits(EXACT, unspecified=("integer-division",), traps=True), """floor_divide remainder fmod div.Tensor_mode
        div.Scalar_mode div.out_mode div.Scalar_mode_out divide.Tensor_mode divide.Scalar_mode divide.out_mode"""),
    (Traits(EXACT, takes="whole", traps=True), "gcd lcm"),
    (Traits(EXACT, unspecified=("shift-out-of-range",), takes="whole", traps=True), """bitwise_left_shift
        bitwise_right_shift __lshift__ __rshift__ __ilshift__ __irshift__"""),
    # One rounding
    (Traits(ONCE), """add sub subtract rsub mul multiply div divide true_divide sqrt rsqrt reciprocal square
        leaky_relu prelu _prelu_kernel rrelu rrelu_with_noise softshrink linspace logspace deg2rad rad2deg complex
        polar angle glu _foreach_add _foreach_sub _foreach_mul _foreach_div _foreach_sqrt _foreach_reciprocal"""),
    (Traits(ONCE, clips=True), "hardswish hardsigmoid"),
    (Traits(ONCE, drops=True), "dropout alpha_dropout feature_dropout native_dropout"),
    (Traits(ONCE, casts=True, unspecified=("float-to-integer",)), "to _to_copy"),
    (Traits(ONCE, casts=True, unspecified=("float-to-integer",), lends=True), "type_as"),
    (Traits(ONCE, ulps=2), """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan arcsin arccos arctan sinh
        cosh tanh asinh acosh atanh arcsinh arccosh arctanh sigmoid erf erfc erfinv logit silu xlogy hypot atan2 arctan2
        special_expit special_log1p special_expm1 special_erf special_erfc special_xlogy
        special_exp2"""),
    (Traits(ABSOLUTE), "softplus log_sigmoid log_sigmoid_forward elu celu selu special_ndtr"),
    (Traits(ABSOLUTE, follows_argument=True), "gelu mish"),
    # A product or a function that rounds, and then a sum that may cancel it
    (Traits(cancels=True), """addcmul addcdiv lerp _foreach_addcmul _foreach_addcdiv _foreach_lerp logaddexp logaddexp2
        sinc special_sinc"""),
    # Products
    (Traits(operands=_BOTH, terms=Terms.INNER, sums=True, takes="matrices"), "matmul linalg_matmul"),
    (Traits(operands=_BOTH, terms=Terms.INNER, sums=True, takes="matrices", rank=2), "mm"),
    (Traits(operands=_BOTH, terms=Terms.INNER, sums=True, takes="matrices", rank=3), "bmm"),
    (Traits(operands=_LAST_TWO, terms=Terms.INNER, sums=True, takes="matrices", rank=2), "addmm"),
    (Traits(operands=_LAST_TWO, terms=Terms.INNER, sums=True, takes="matrices", rank=3), "baddbmm"),
    (Traits(operands=_LAST_TWO, terms=Terms.INNER, sums=True), "addbmm"),
    (Traits(operands=_LAST_TWO, terms=Terms.INNER, sums=True, rank=2), "addmv"),
    (Traits(operands=_LAST_TWO, terms=Terms.INNER, sums=True, rank=1, grows=True), "addr"),
    (Traits(operands=_BOTH, terms=Terms.INNER, sums=True), "linear"),
    (Traits(operands=_BOTH, terms=Terms.INNER, sums=True, grows=True), "inner bilinear tensordot kron"),
    (Traits(operands=_BOTH, terms=Terms.INNER, sums=True, rank=2), "mv"),
    (Traits(operands=_BOTH, terms=Terms.INNER, sums=True, rank=1), "dot vdot"),
    (Traits(operands=_BOTH, terms=Terms.INNER, sums=True, rank=1, grows=True), "outer ger"),
    (Traits(operands=_BOTH, terms=Terms.KERNEL, sums=True), """convolution _convolution mkldnn_convolution conv1d conv2d
        conv3d conv_transpose1d conv_transpose2d conv_transpose3d"""),
    # Sums over the first argument
    (Traits(operands=_FIRST, terms=Terms.NORMALISED), "rms_norm _fused_rms_norm"),
    (Traits(operands=_FIRST, terms=Terms.NORMALISED, centres=True), "layer_norm native_layer_norm"),
    (Traits(operands=_FIRST, terms=Terms.DIMS, centres=True, rank=4), "group_norm native_group_norm"),
    (Traits(operands=_FIRST, terms=Terms.DIMS, centres=True, rank=4, writes=_STATISTICS), "instance_norm"),
    (Traits(operands=_FIRST, terms=Terms.CHANNEL, centres=True, rank=4, writes=_STATISTICS), """batch_norm
        native_batch_norm cudnn_batch_norm miopen_batch_norm"""),
    (Traits(operands=_FIRST, terms=Terms.CHANNEL), """_native_batch_norm_legit _native_batch_norm_legit_functional
        _native_batch_norm_legit_no_training _batch_norm_with_update _batch_norm_no_update"""),
    (Traits(operands=_FIRST, terms=Terms.DIM, shares=True), "softmax _softmax log_softmax _log_softmax"),
    (Traits(operands=_FIRST, terms=Terms.DIM, scans=True, sums=True), "cumsum"),
    (Traits(operands=_FIRST, terms=Terms.DIM, scans=True), "cumprod logcumsumexp"),
    (Traits(operands=_FIRST, terms=Terms.DIMS, adds=True, sums=True), "sum"),
    (Traits(operands=_FIRST, terms=Terms.DIMS, adds=True, sums=True, averages=True), "mean"),
    (Traits(operands=_FIRST, terms=Terms.DIMS, sums=True), "nansum"),
    (Traits(operands=_FIRST, terms=Terms.DIMS, sums=True, averages=True), "nanmean"),
    (Traits(operands=_FIRST, terms=Terms.DIMS), """prod var std var_mean std_mean norm linalg_vector_norm
        logsumexp"""),
    (Traits(operands=_FIRST, terms=Terms.WINDOW, sums=True, averages=True), """avg_pool1d avg_pool2d avg_pool3d
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d"""),
    (Traits(operands=_FIRST, terms=Terms.SEQUENCE), "lstm gru rnn_tanh rnn_relu"),
    (Traits(operands=_FIRST, recurs=True), "special_chebyshev_polynomial_t special_hermite_polynomial_h"),
    (Traits(operands=_FIRST, recurs=True, unspecified=("unwritten-polynomial",)), """special_chebyshev_polynomial_u
        special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_hermite_polynomial_he
        special_laguerre_polynomial_l special_legendre_polynomial_p special_shifted_chebyshev_polynomial_t
        special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
        special_shifted_chebyshev_polynomial_w"""),
    # Rounding inside, over all arguments
    (Traits(terms=Terms.SEQUENCE), "scaled_dot_product_attention"),
    (Traits(terms=Terms.LAST, distance=True), "cdist _cdist_forward _euclidean_dist"),
    (Traits(interpolates=True, grows=True), """upsample_linear1d upsample_bilinear2d upsample_bicubic2d
        upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_lanczos2d_aa
        affine_grid_generator roi_align roi_pool"""),
    (Traits(interpolates=True, grows=True, codes=_GRID_CODES, unspecified=("unknown-mode",)), """grid_sampler
        grid_sampler_2d grid_sampler_3d"""),
    (Traits(grows=True, transforms=True), """fft_fft fft_fft2 fft_fftn fft_ifft fft_ifft2 fft_ifftn fft_rfft fft_rfft2
        fft_rfftn fft_ihfft fft_ihfft2 fft_ihfftn"""),
    (Traits(
        grows=True, terms=Terms.COUNTED, scans=True, sums=True, ascending=("offsets",),
        unspecified=("unordered-offsets",),
    ), "embedding_bag"),
    (Traits(grows=True), "diagflat pad_sequence vander linalg_vander"),
    (Traits(grows=True, transforms=True, takes="complex"), """fft_hfft fft_hfft2 fft_hfftn fft_irfft fft_irfft2
        fft_irfftn"""),
    (Traits(takes="square"), """linalg_det linalg_slogdet linalg_matrix_exp linalg_matrix_norm linalg_matrix_power
        matrix_exp matrix_power"""),
    (Traits(rank=2, terms=Terms.COUNTED, sums=True), "trace"),
    (Traits(terms=Terms.COUNTED, sums=True), "einsum linalg_multi_dot chain_matmul col2im"),
    (Traits(unspecified=("vector-sign",)), """linalg_svd _linalg_svd svd linalg_qr qr linalg_eigh _linalg_eigh
        linalg_eig geqrf"""),
    (Traits(unspecified=("eigenvalue-order",)), "linalg_eigvals"),
    (Traits(unspecified=("empty-reduction",)), "quantile nanquantile multilabel_margin_loss multi_margin_loss"),
)  # fmt: skip

_ROWS: Final = {name: row for row, names in TABLE for name in names.split()}
_UNKNOWN: Final = Traits()
_PYTHON: Final = Traits(EXACT)
"""Plain functions that export leaves in a graph: tuple access and arithmetic on sizes."""
_SPATIAL: Final = re.compile(r"[a-z]([123])d(_|$)")


@functools.cache
def base_name(op: str) -> str:
    """`add` of `aten.add_.Tensor`."""
    parts = op.split(".")
    name = parts[1] if len(parts) > 1 else op
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


@functools.cache
def traits(op: str) -> Traits:
    """What is known about an operator, by the name that a node has: `aten.add_.Tensor`."""
    if op.startswith(("operator.", "math.", "torch.")):
        return _ROWS.get(op, _PYTHON)
    name = base_name(op)
    row = _ROWS.get(f"{name}.{op.rpartition('.')[2]}") or _ROWS.get(name, _UNKNOWN)
    spatial = _SPATIAL.search(name)
    if spatial is None:
        return row
    dimensions = int(spatial[1])
    return replace(row, spatial=dimensions, rank=row.rank or dimensions + 2)


@functools.cache
def falling_under(rule: str) -> frozenset[str]:
    """The operators whose calls may fall under a rule of unspecified behaviour."""
    return frozenset(name.partition(".")[0] for name, row in _ROWS.items() if rule in row.unspecified)
