import torch
import torch.nn.functional as F
class Model(torch.nn.Module):
    def forward(self, x):
        return F.elu(x)
model, inputs = Model().eval(), (torch.tensor([float("nan")]),)
import tvm
from tvm.relax.frontend.torch import from_exported_program
module = from_exported_program(torch.export.export(model, inputs, strict=False))
target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})
main = tvm.relax.VirtualMachine(tvm.relax.build(module, target), tvm.cpu())["main"]
results = main(*[tvm.runtime.tensor(x.numpy()) for x in inputs])
actual = [torch.from_numpy(x.numpy()) for x in ([results] if hasattr(results, "numpy") else results)]
expected = [model(*inputs)]
torch.testing.assert_close(actual, expected, rtol=1.4e-06, atol=0.0e+00, equal_nan=True)
