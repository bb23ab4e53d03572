import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.log1p(x)
model, inputs = Model().eval(), (torch.tensor([0.0001]),)
import mindspore as ms; from mindspore import Tensor, mint, ops
ms.set_device('CPU'); ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
v0 = Tensor(inputs[0].tolist(), ms.float32)
v1 = mint.log1p(v0)
actual = [torch.tensor(v1.tolist(), dtype=torch.float32)]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=0.0e+00, atol=2.6e-10, equal_nan=True)
