// libFuzzer target: any bytes as a GGUF file. The reader must refuse or accept, never crash, and all it promises must
// be readable: every value by every getter, every byte of every tensor. Seeds: tests/fuzz/corpus/gguf.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "gguf/gguf.h"
#include "tensor/dequant.h"
#include "tensor/dtype.h"

namespace {

using foresay::gguf::File;

// Written to, so that the compiler can't leave the reads out.
volatile uint64_t g_sink;

void touch(std::span<const std::byte> bytes) {
    uint64_t sum = 0;
    for (const std::byte b : bytes) {
        sum += std::to_integer<uint64_t>(b);
    }
    g_sink = g_sink + sum;
}

void touch(std::string_view text) {
    touch(std::as_bytes(std::span(text)));
}

void read_value(const File& file, const foresay::gguf::Value& value) {
    FORESAY_ASSERT(file.find(value.key) == &value);
    touch(value.key);
    touch(value.raw);
    g_sink = g_sink + file.u32(value.key).has_value() + file.i64(value.key).has_value() +
             file.f32(value.key).has_value() + file.boolean(value.key).has_value() +
             file.i64_scalar_or_array(value.key, 4, 1).has_value() + file.i64_array(value.key).has_value() +
             file.f32_array(value.key).has_value();
    if (const auto text = file.string(value.key)) {
        touch(*text);
    }
    if (const auto texts = file.string_array(value.key)) {
        FORESAY_ASSERT(texts->size() == value.n);
        for (const std::string_view text : *texts) {
            touch(text);
        }
    }
}

void read_tensor(const File& file, const foresay::gguf::TensorInfo& tensor) {
    FORESAY_ASSERT(file.tensor(tensor.name) == &tensor);
    FORESAY_ASSERT(tensor.data.size() == tensor.bytes && tensor.bytes > 0);
    touch(tensor.data);
    const auto dtype = foresay::dtype_from_gguf(tensor.type);
    if (!dtype || !foresay::dtype_info(*dtype).is_weight) {
        return;
    }
    const int64_t n_rows = tensor.ne[1] * tensor.ne[2] * tensor.ne[3];
    const size_t row_bytes = foresay::row_bytes(*dtype, tensor.ne[0]);
    FORESAY_ASSERT(row_bytes * static_cast<size_t>(n_rows) == tensor.bytes);
    std::vector<float> row(static_cast<size_t>(tensor.ne[0]));
    const std::byte* last_row = tensor.data.data() + static_cast<size_t>(n_rows - 1) * row_bytes;
    foresay::dequantize_row(*dtype, last_row, row.data(), tensor.ne[0]);
    g_sink = g_sink + static_cast<uint64_t>(std::signbit(row.back()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto file = File::from_bytes(std::as_bytes(std::span(data, size)));
    if (!file) {
        FORESAY_ASSERT(!file.error().message.empty() && !file.error().where.empty());
        return 0;
    }
    for (const auto& value : (*file)->values()) {
        read_value(**file, value);
    }
    for (const auto& tensor : (*file)->tensors()) {
        read_tensor(**file, tensor);
    }
    return 0;
}
