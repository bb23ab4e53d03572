import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.ops.aten.conv2d.padding(x, y)
model, inputs = Model().eval(), (torch.tensor([[[[0]]]]), torch.tensor([[[[0]]]]),)
import tvm
from tvm.relax.frontend.torch import from_exported_program
module = from_exported_program(torch.export.export(model, inputs, strict=False))
target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})
main = tvm.relax.VirtualMachine(tvm.relax.build(module, target), tvm.cpu())["main"]
results = main(*[tvm.runtime.tensor(x.numpy()) for x in inputs])
actual = [torch.from_numpy(x.numpy()) for x in ([results] if hasattr(results, "numpy") else results)]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=2.7e-15, atol=0.0e+00, equal_nan=True)
