import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.ops.aten.upsample_bilinear2d.vec(x, None, False, [1.7, 1.7])
model, inputs = Model().eval(), (torch.tensor([[[[0.0, 1.0]]]]),)
import tvm
from tvm.relax.frontend.torch import from_exported_program
module = from_exported_program(torch.export.export(model, inputs, strict=False))
target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})
main = tvm.relax.VirtualMachine(tvm.relax.build(module, target), tvm.cpu())["main"]
results = main(*[tvm.runtime.tensor(x.numpy()) for x in inputs])
actual = [torch.from_numpy(x.numpy()) for x in ([results] if hasattr(results, "numpy") else results)]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=0.0e+00, atol=2.9e-06, equal_nan=True)
