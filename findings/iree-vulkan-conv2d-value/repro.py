import torch, torch.nn.functional as F
class Model(torch.nn.Module):
    def forward(self, x, w):
        return F.conv2d(x, w, padding=1, groups=2)
model, inputs = Model().eval(), (torch.arange(1.0, 33.0).reshape(1, 2, 4, 4), torch.arange(1.0, 19.0).reshape(2, 1, 3, 3))
import iree.compiler, iree.runtime; from torch_mlir.fx import export_and_import
exported = torch.export.export(model, inputs, strict=False)
text = str(export_and_import(exported, output_type="torch", func_name="main"))
compiled = iree.compiler.compile_str(text, target_backends=['vulkan-spirv'], input_type='torch')
import types; iree.runtime.array_interop.BufferCompatibility = types.SimpleNamespace(IMPORTABLE=0)
context = iree.runtime.SystemContext(config=iree.runtime.Config("vulkan"))
context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, compiled))
results = context.modules.module["main"](*[x.contiguous().numpy() for x in inputs])
actual = [torch.from_numpy(result.to_host().copy()) for result in torch.utils._pytree.tree_leaves(results)]
torch.testing.assert_close(actual, [model(*inputs)], rtol=1e-5, atol=0.0, equal_nan=True)
