import torch, torch.nn.functional as F
class Model(torch.nn.Module):
    def forward(self, x):
        return F.tanh(x)
model, inputs = Model().eval(), (torch.tensor([4.0]),)
import mindspore as ms; from mindspore import Tensor, mint, ops
ms.set_device('CPU'); ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
v0 = Tensor(inputs[0].tolist(), ms.float32)
v1 = mint.tanh(v0)
actual = [torch.tensor(v1.tolist(), dtype=torch.float32)]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=0.0e+00, atol=2.9e-06, equal_nan=True)
