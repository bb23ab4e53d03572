import torch, torch.nn.functional as F, zentorch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter((torch.arange(512.0 * 64) % 997).reshape(512, 64) / 997)
    def forward(self, ids, y):
        return F.embedding(ids, self.weight), F.linear(y, self.weight)
model, inputs = Model().eval(), (torch.arange(8), torch.ones(32, 64))
expected = [result.detach().clone() for result in model(*inputs)]
with torch.no_grad():
    compiled = torch.compile(model, backend="zentorch")
    first, actual = list(compiled(*inputs)), list(compiled(*inputs))
print("expected", expected[0][1, :3], "first", first[0][1, :3], "then", actual[0][1, :3], "eager now", model(*inputs)[0][1, :3])
torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5, equal_nan=True)
