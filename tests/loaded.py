"""What a worker has loaded; in a file of its own that imports nothing else."""

from __future__ import annotations

import sys

from mindgap.execution.tasks import Worker, task


@task
def loaded_modules(worker: Worker, request: None) -> tuple[str, ...]:
    return tuple(name for name in sys.modules if name.startswith("mindgap."))
