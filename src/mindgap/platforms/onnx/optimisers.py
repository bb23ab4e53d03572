"""Graph optimisers of ONNX Runtime by name: switched off one by one, they tell which of them changes a result."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.ladder import Passes

DISABLED: Final = "disabled"
"""The option of the platform that takes names to switch off."""

_NAMES: Final = """
    AttentionFusion Avx2WeightS8ToU8Transformer BiasDropoutFusion BiasGeluFusion BiasSkipLayerNormFusion
    BiasSoftmaxFusion CastChainElimination CastElimination ClipQuantRewrite CommonSubexpressionElimination
    ConstantFolding ConstantSharing ConvActivationFusion ConvAddActivationFusion ConvAddFusion ConvBNFusion
    ConvMulFusion DQMatMulNBitsFusion DivMulFusion DynamicQuantizeMatMulFusion EliminateDropout
    EliminateIdentity EliminateSlice EmbedLayerNormFusion ExpandElimination FastGeluFusion FuseReluClip
    GatherSliceToSplitFusion GatherToSliceFusion GeluFusionL1 GeluFusionL2 GemmActivationFusion GemmSumFusion
    GemmTransposeFusion GqaValueLayoutTransformer GroupQueryAttentionFusion GroupQueryAttentionPreNormFusion
    LabelEncoderFusion LayerNormFusionL1 LayerNormFusionL2 Level1_RuleBasedTransformer
    Level2_RuleBasedTransformer MatMulActivationFusion MatMulAddFusion MatMulIntegerToFloatFusion
    MatMulNBitsMlpFusion MatMulNBitsQkvFusion MatMulScaleFusion MatMul_BatchNormalization_Fusion
    MatmulTransposeFusion NchwcTransformer NhwcTransformer NoopElimination NotWhereFusion Pad_Fusion
    PreShapeNodeElimination QDQFinalCleanupTransformer QDQPropagationTransformer QDQS8ToU8Transformer
    QDQSelectorActionTransformer QuickGeluFusion ReluQuantRewrite RemoveDuplicateCastTransformer ReshapeFusion
    SimplifiedLayerNormFusion SkipLayerNormFusion SliceConcatToSpaceToDepthFusion TransposeOptimizer
    UnsqueezeElimination
"""
"""Transformers and rewrite rules of ONNX Runtime 1.31, as it names them; it ignores a name that it does not have."""

OPTIMISERS: Final = Passes(
    "graph optimisers",
    DISABLED,
    tuple(_NAMES.split()),
    "optimiser",
    "onnxruntime.InferenceSession(model, disabled_optimizers={names})",
)
