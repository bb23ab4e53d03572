"""A large output is judged within bounded memory."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import resource, sys
import numpy as np
import torch
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.tensors import NamedTensor
from mindgap.verdicts import compare, elements
from mindgap.verdicts.judge import judge
from mindgap.verdicts.surveyed import Survey, Surveyed

# A 64 MB output in chunks of 2 MB stands for 2 GB in chunks of 64 MB.
compare.CHUNK = elements.CHUNK = 1 << 17
count, folder = 1 << 24, sys.argv[1]

def mapped(name, dtype, value):
    array = np.memmap(f"{folder}/{name}", dtype, "w+", shape=(count,))
    for low in range(0, count, 1 << 18):
        array[low : low + (1 << 18)] = value
    return torch.from_numpy(array)

eager, candidate = mapped("e", "float32", 1.0), mapped("c", "float32", 1.0000001)
candidate[count // 2] = 3.0
known = Surveyed("output", "float32", mapped("r", "float64", 1.0), mapped("s", "float32", 1e-7))

def outcome(platform, tensor):
    return Outcome(platform, Status.OK, Stage.RUN, outputs=(NamedTensor("output", tensor),))

def private():
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["RssAnon"].split()[0]) / 1024

import threading, time
peak, going = [private()], True
def watch():
    while going:
        peak.append(private())
        time.sleep(0.002)
start = private()
thread = threading.Thread(target=watch)
thread.start()
verdict = judge(outcome("eager", eager), [outcome("c", candidate)], Survey((known,), runs=8))["c"]
going = False
thread.join()
print(verdict.conclusion.value, verdict.worst, max(peak) - start)
"""


def test_a_large_output_needs_little_memory(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=300, check=True
    )
    conclusion, worst, extra = done.stdout.split()
    assert conclusion == "diverges" and worst == f"output[{1 << 23}]"
    assert float(extra) < 32  # half of the output, as 1 GB is of 2 GB
