import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.remainder(x, y)
model, inputs = Model().eval(), (torch.tensor([9999.0]), torch.tensor([0.3]),)
import mindspore as ms; from mindspore import Tensor, mint, ops
ms.set_device('CPU'); ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
v0 = Tensor(inputs[0].tolist(), ms.float32)
v1 = Tensor(inputs[1].tolist(), ms.float32)
v2 = mint.remainder(v0, v1)
actual = [torch.tensor(v2.tolist(), dtype=torch.float32)]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=1.4e-06, atol=0.0e+00, equal_nan=True)
