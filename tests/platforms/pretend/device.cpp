// A device of torch that is not the CPU: the PrivateUse1 key, its own allocator, copies to and from the host, views, and
// a fallback that brings every other operator to the CPU and back. Vendors' plug-ins (torch_npu) register the same parts.
// Its memory is the host's, but no CPU kernel is ever given a tensor of it without a copy.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

#include <atomic>
#include <cstring>

namespace {

std::atomic<int64_t> fallbacks{0}, copies{0};

struct Memory final : at::Allocator {
  at::DataPtr allocate(size_t size) override {
    void* data = c10::alloc_cpu(size);
    return {data, data, &c10::free_cpu, at::Device(at::DeviceType::PrivateUse1, 0)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &c10::free_cpu; }
  void copy_data(void* to, const void* from, std::size_t size) const override { std::memcpy(to, from, size); }
};

Memory memory;
REGISTER_ALLOCATOR(at::DeviceType::PrivateUse1, &memory);
C10_REGISTER_GUARD_IMPL(PrivateUse1, c10::impl::NoOpDeviceGuardImpl<at::DeviceType::PrivateUse1>);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
};
const bool hooked = (at::RegisterPrivateUse1HooksInterface(new Hooks()), true);

const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, keys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory, keys, c10::dtype_or_default(dtype));
}

at::Tensor on_host(const at::Tensor& x) {
  if (x.device().is_cpu()) return x;
  return at::from_blob(x.data_ptr(), x.sizes(), x.strides(), x.options().device(at::kCPU));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  ++copies;
  on_host(to).copy_(on_host(from));
  return to;
}

const at::Tensor& resized(const at::Tensor& x, c10::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  return at::native::resize_(x, size, format);  // takes new memory from the tensor's own allocator
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  return copy_from(from, resized(to, from.sizes(), std::nullopt), false);
}

// Torch has no kernel to fall back to: it asks every device for its own.
at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                       c10::IntArrayRef output_padding, int64_t groups) {
  ++fallbacks;
  const auto added = bias.has_value() && bias->defined() ? std::optional(on_host(*bias)) : std::nullopt;
  return at::convolution(on_host(x), on_host(weight), added, stride, padding, dilation, transposed, output_padding, groups)
      .to(x.device());
}

at::Tensor as_strided(const at::Tensor& x, c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<int64_t> at) {
  return at::native::as_strided_tensorimpl(x, size, stride, at);
}

at::Tensor view(const at::Tensor& x, c10::IntArrayRef size) { return at::native::view(x, size); }

at::Scalar number(const at::Tensor& x) { return on_host(x).item(); }

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  ++fallbacks;
  at::native::cpu_fallback(op, stack);
}

int64_t fallback_count() { return fallbacks; }
int64_t copy_count() { return copies; }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("resize_", &resized);
  m.impl("convolution_overrideable", &convolution);
  m.impl("as_strided", &as_strided);
  m.impl("view", &view);
  m.impl("_local_scalar_dense", &number);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

TORCH_LIBRARY(pretend, m) {
  m.def("fallback_count() -> int", &fallback_count);
  m.def("copy_count() -> int", &copy_count);
}
