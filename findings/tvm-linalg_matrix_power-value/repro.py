import torch
class Model(torch.nn.Module):
    def forward(self, x):
        t0 = torch.ops.aten.linalg_matrix_power.default(x, 2)
        return torch.reciprocal(t0)
model, inputs = Model().eval(), (torch.tensor([[0, 9223372036854775807], [0, 6]]),)
import tvm
from tvm.relax.frontend.torch import from_exported_program
module = from_exported_program(torch.export.export(model, inputs, strict=False))
target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})
main = tvm.relax.VirtualMachine(tvm.relax.build(module, target), tvm.cpu())["main"]
results = main(*[tvm.runtime.tensor(x.numpy()) for x in inputs])
actual = [torch.from_numpy(x.numpy()) for x in ([results] if hasattr(results, "numpy") else results)]
expected = [model(*inputs)]
torch.testing.assert_close(actual, expected, rtol=1.4e-06, atol=1.8e-07, equal_nan=True)
