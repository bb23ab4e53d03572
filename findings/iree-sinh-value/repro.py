import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sinh(x)
model, inputs = Model().eval(), (torch.tensor([0.0001]),)
import iree.compiler, iree.runtime; from torch_mlir.fx import export_and_import
exported = torch.export.export(model, inputs, strict=False)
text = str(export_and_import(exported, output_type="torch", func_name="main"))
compiled = iree.compiler.compile_str(text, target_backends=['llvm-cpu'], input_type='torch', extra_args=['--iree-llvmcpu-target-cpu=host'])
context = iree.runtime.SystemContext(config=iree.runtime.Config("local-sync"))
context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, compiled))
results = context.modules.module["main"](*[x.contiguous().numpy() for x in inputs])
actual = [torch.from_numpy(result.to_host().copy()) for result in torch.utils._pytree.tree_leaves(results)]
expected = [model(*inputs)]
torch.testing.assert_close(actual, expected, rtol=0.0e+00, atol=2.6e-10, equal_nan=True)
