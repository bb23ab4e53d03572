"""Make the smoke corpus that ships with mindgap: `python scripts/make_smoke.py`.

Needs timm and transformers. A model that is not bit-exact, not alive, too large, or needs a file of weights is an
error: whoever changes a recipe sees what it does to the programs that everyone runs.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from mindgap.corpus.build_model import build_model
from mindgap.corpus.sources.shipped import file_name
from mindgap.corpus.spelling import SMOKE
from mindgap.records.files import write_whole
from mindgap.records.source import Source

MOST_PARAMETERS: Final = 1_000_000
MOST_BYTES: Final = 1_000_000
ROOT: Final = Path(__file__).resolve().parent.parent

MODELS: Final[dict[str, tuple[str, ...]]] = {
    "vision": (
        "timm:test_resnet", "timm:test_vit", "timm:test_convnext", "timm:test_mambaout", "timm:test_nfnet",
        "timm:test_efficientnet", "timm:test_byobnet", "transformers:segformer:semantic-segmentation",
        "transformers:dinov2",
    ),
    "language": (
        "transformers:bert:masked-lm", "transformers:gpt2:causal-lm", "transformers:llama:causal-lm",
        "transformers:mixtral:causal-lm", "transformers:mamba:causal-lm", "transformers:xlnet",
        "transformers:deberta-v2", "transformers:albert", "transformers:bart",
    ),
    "audio": (
        "transformers:wav2vec2:ctc", "transformers:hubert", "transformers:sew",
        "transformers:audio-spectrogram-transformer",
    ),
    "multimodal": (
        "transformers:clip", "transformers:blip", "transformers:llava", "transformers:layoutlm",
    ),
    "diffusion": ("diffusion_unet", "diffusion_dit"),
    "graph": ("graph_gcn", "graph_gat"),
    "tabular": ("tabular_resnet", "tabular_ft_transformer", "transformers:tapas"),
    "recommendation": ("recommendation_dlrm", "recommendation_two_towers", "recommendation_gru4rec"),
    "time series": ("transformers:patchtst", "time_series_tcn", "time_series_lstm"),
    "rl": ("rl_dueling_dqn", "rl_actor_critic"),
}  # fmt: skip
"""Models by domain; a name without a library is a function of smoke_models.py."""


def spec_of(model: str) -> str:
    """How the model is named for `load`, from the project's root."""
    return model if ":" in model else f"scripts/smoke_models.py:{model}"


def short_name(domain: str, model: str) -> str:
    """`llama` for `transformers:llama:causal-lm`."""
    name = model.split(":")[1] if ":" in model else model.removeprefix(f"{domain.replace(' ', '_')}_")
    return name.removeprefix("test_").replace("_", "-")


def main() -> None:
    """Build all, then replace the folder's files."""
    os.chdir(ROOT)
    made: dict[str, bytes] = {}
    for domain, models in MODELS.items():
        for model in models:
            name = file_name(domain, short_name(domain, model))
            made[name] = _make(model)
            sys.stdout.write(f"{name:50} {len(made[name]):6}\n")
    total = sum(map(len, made.values()))
    if total > MOST_BYTES:
        sys.exit(f"{total} bytes are too many")
    SMOKE.mkdir(exist_ok=True)
    for old in SMOKE.glob("*.mgp"):
        old.unlink()
    for name, data in made.items():
        write_whole(SMOKE / name, data)
    sys.stdout.write(f"{len(made)} programs, {total} bytes\n")


def _make(model: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        found = build_model(Source(spec_of(model), directory=str(ROOT)), Path(folder))
        if found.stage:
            sys.exit(f"{model} failed at {found.stage}: {found.reason}")
        if found.liveness is None or not found.liveness.alive:
            sys.exit(f"{model} is not alive: {found.liveness}")
        if found.parameters > MOST_PARAMETERS or any((Path(folder) / "weights").iterdir()):
            sys.exit(f"{model} is too large: {found.parameters} parameters")
        return (Path(folder) / "programs" / "model.mgp").read_bytes()


if __name__ == "__main__":
    main()
