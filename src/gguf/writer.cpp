#include "gguf/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/assert.h"
#include "base/checked.h"
#include "tensor/quantize.h"

namespace foresay::gguf {

namespace {

using Bytes = std::vector<std::byte>;

// Not inlined: g++ 12 would warn of an overflow in vector::insert that can't happen (its reasoning about a vector known
// to be empty).
[[gnu::noinline]] void put_raw(Bytes* out, const void* data, size_t n) {
    const auto* begin = static_cast<const std::byte*>(data);
    out->insert(out->end(), begin, begin + n);
}

template <typename T>
void put(Bytes* out, T value) {
    put_raw(out, &value, sizeof(T));
}

void put(Bytes* out, bool value) {
    put(out, static_cast<uint8_t>(value ? 1 : 0));
}

void put(Bytes* out, std::string_view text) {
    put(out, static_cast<uint64_t>(text.size()));
    put_raw(out, text.data(), text.size());
}

void put(Bytes* out, const std::string& text) {
    put(out, std::string_view(text));
}

template <typename T>
constexpr ValueType type_of();

template <>
constexpr ValueType type_of<uint8_t>() {
    return ValueType::kU8;
}

template <>
constexpr ValueType type_of<int8_t>() {
    return ValueType::kI8;
}

template <>
constexpr ValueType type_of<uint16_t>() {
    return ValueType::kU16;
}

template <>
constexpr ValueType type_of<int16_t>() {
    return ValueType::kI16;
}

template <>
constexpr ValueType type_of<uint32_t>() {
    return ValueType::kU32;
}

template <>
constexpr ValueType type_of<int32_t>() {
    return ValueType::kI32;
}

template <>
constexpr ValueType type_of<uint64_t>() {
    return ValueType::kU64;
}

template <>
constexpr ValueType type_of<int64_t>() {
    return ValueType::kI64;
}

template <>
constexpr ValueType type_of<float>() {
    return ValueType::kF32;
}

template <>
constexpr ValueType type_of<double>() {
    return ValueType::kF64;
}

template <>
constexpr ValueType type_of<bool>() {
    return ValueType::kBool;
}

template <>
constexpr ValueType type_of<std::string>() {
    return ValueType::kString;
}

/// The output while it is being written: closed always, and removed unless it was completed.
class Output {
  public:
    Output(std::string path, bool removable) : path_(std::move(path)), removable_(removable) {
        fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    }

    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;

    ~Output() {
        if (fd_ >= 0) {
            close(fd_);
        }
        if (removable_ && !complete_) {
            unlink(path_.c_str());
        }
    }

    bool is_open() const { return fd_ >= 0; }

    Status write_all(std::span<const std::byte> bytes) {
        while (!bytes.empty()) {
            const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
            if (n < 0 && errno == EINTR) {
                continue;
            }
            if (n <= 0) {
                return failure("can't write");
            }
            bytes = bytes.subspan(static_cast<size_t>(n));
        }
        return ok();
    }

    /// Some file systems report a full disk only here.
    Status finish() {
        if (removable_ && fsync(fd_) != 0) {
            return failure("can't store");
        }
        const int fd = fd_;
        fd_ = -1;
        if (close(fd) != 0) {
            return failure("can't store");
        }
        complete_ = true;
        return ok();
    }

    Error failure(const char* what) const {
        const int number = errno;
        const bool full = number == ENOSPC || number == EDQUOT;
        return error(Code::kIo,
                     full ? std::string("the disk is full")
                          : fmt::format("{}: {}", what, std::system_category().message(number)),
                     path_);
    }

  private:
    std::string path_;
    bool removable_;
    bool complete_ = false;
    int fd_ = -1;
};

}  // namespace

Writer::Writer(uint32_t alignment) : alignment_(alignment) {
    FORESAY_ASSERT(alignment != 0 && (alignment & (alignment - 1)) == 0);
    if (alignment != 32) {
        set("general.alignment", alignment);
    }
}

void Writer::begin_value(std::string_view key, ValueType type) {
    FORESAY_ASSERT(!key.empty() && std::find(keys_.begin(), keys_.end(), key) == keys_.end());
    keys_.emplace_back(key);
    put(&metadata_, key);
    put(&metadata_, static_cast<int32_t>(type));
}

#define FORESAY_WRITER_SET(Type)                         \
    void Writer::set(std::string_view key, Type value) { \
        begin_value(key, type_of<Type>());               \
        put(&metadata_, value);                          \
    }

FORESAY_WRITER_SET(uint8_t)
FORESAY_WRITER_SET(int8_t)
FORESAY_WRITER_SET(uint16_t)
FORESAY_WRITER_SET(int16_t)
FORESAY_WRITER_SET(uint32_t)
FORESAY_WRITER_SET(int32_t)
FORESAY_WRITER_SET(uint64_t)
FORESAY_WRITER_SET(int64_t)
FORESAY_WRITER_SET(float)
FORESAY_WRITER_SET(double)
FORESAY_WRITER_SET(bool)
#undef FORESAY_WRITER_SET

void Writer::set(std::string_view key, std::string_view value) {
    begin_value(key, ValueType::kString);
    put(&metadata_, value);
}

template <typename T>
void Writer::set(std::string_view key, const std::vector<T>& values) {
    begin_value(key, ValueType::kArray);
    put(&metadata_, static_cast<int32_t>(type_of<T>()));
    put(&metadata_, static_cast<uint64_t>(values.size()));
    for (const auto& value : values) {
        put(&metadata_, static_cast<const T&>(value));  // the cast is for vector<bool>, whose elements are proxies
    }
}

template void Writer::set(std::string_view, const std::vector<uint8_t>&);
template void Writer::set(std::string_view, const std::vector<int8_t>&);
template void Writer::set(std::string_view, const std::vector<uint16_t>&);
template void Writer::set(std::string_view, const std::vector<int16_t>&);
template void Writer::set(std::string_view, const std::vector<uint32_t>&);
template void Writer::set(std::string_view, const std::vector<int32_t>&);
template void Writer::set(std::string_view, const std::vector<uint64_t>&);
template void Writer::set(std::string_view, const std::vector<int64_t>&);
template void Writer::set(std::string_view, const std::vector<float>&);
template void Writer::set(std::string_view, const std::vector<double>&);
template void Writer::set(std::string_view, const std::vector<bool>&);
template void Writer::set(std::string_view, const std::vector<std::string>&);

void Writer::add_tensor(std::string_view name, int32_t gguf_type, std::span<const int64_t> ne,
                        std::vector<std::byte> data) {
    const auto same_name = [&](const Tensor& tensor) { return tensor.name == name; };
    FORESAY_ASSERT(!name.empty() && std::none_of(tensors_.begin(), tensors_.end(), same_name));
    FORESAY_ASSERT(!ne.empty() && ne.size() <= 4);
    int64_t block = 0;
    size_t block_bytes = 0;
    FORESAY_ASSERT(gguf_type_size(gguf_type, &block, &block_bytes));
    int64_t blocks = ne[0] / block;
    for (size_t i = 1; i < ne.size(); ++i) {
        blocks *= ne[i];
    }
    FORESAY_ASSERT(ne[0] % block == 0 && data.size() == static_cast<size_t>(blocks) * block_bytes);
    tensors_.push_back({std::string(name), gguf_type, {ne.begin(), ne.end()}, std::move(data)});
}

Status Writer::add_tensor(std::string_view name, DType dtype, std::span<const int64_t> ne,
                          std::span<const float> values) {
    FORESAY_ASSERT(!ne.empty() && ne[0] > 0 && values.size() % static_cast<size_t>(ne[0]) == 0);
    const auto row = static_cast<size_t>(ne[0]);
    const size_t n_rows = values.size() / row;
    if (ne[0] % dtype_info(dtype).block != 0) {
        return error(Code::kInvalidArgument,
                     fmt::format("rows of {} elements can't be stored as {}", row, dtype_name(dtype)),
                     fmt::format("tensor '{}'", name));
    }
    const size_t bytes = row_bytes(dtype, ne[0]);
    std::vector<std::byte> data(n_rows * bytes);
    for (size_t i = 0; i < n_rows; ++i) {
        if (Status status = quantize_row(dtype, values.data() + i * row, data.data() + i * bytes, ne[0]); !status) {
            return std::move(status).error().context(fmt::format("tensor '{}', row {}", name, i));
        }
    }
    add_tensor(name, static_cast<int32_t>(dtype), ne, std::move(data));
    return ok();
}

size_t Writer::padded(size_t bytes) const {
    return round_up(bytes, static_cast<size_t>(alignment_));
}

std::vector<std::byte> Writer::head() const {
    Bytes out;
    put(&out, uint32_t{0x46554747});  // "GGUF"
    put(&out, uint32_t{3});
    put(&out, static_cast<int64_t>(tensors_.size()));
    put(&out, static_cast<int64_t>(keys_.size()));
    out.insert(out.end(), metadata_.begin(), metadata_.end());
    uint64_t offset = 0;
    for (const Tensor& tensor : tensors_) {
        put(&out, tensor.name);
        put(&out, static_cast<uint32_t>(tensor.ne.size()));
        for (const int64_t n : tensor.ne) {
            put(&out, n);
        }
        put(&out, tensor.type);
        put(&out, offset);
        offset += padded(tensor.data.size());
    }
    out.resize(padded(out.size()));
    return out;
}

std::vector<std::byte> Writer::to_bytes() const {
    Bytes out = head();
    for (const Tensor& tensor : tensors_) {
        out.insert(out.end(), tensor.data.begin(), tensor.data.end());
        out.resize(padded(out.size()));
    }
    return out;
}

Status Writer::write(const std::string& path) const {
    struct stat status {};

    const bool is_device = stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
    const std::string temporary = is_device ? path : path + ".tmp";
    Output output(temporary, !is_device);
    if (!output.is_open()) {
        return output.failure("can't create the file");
    }
    const Bytes first = head();
    FORESAY_CHECK_OK(output.write_all(first));
    const Bytes zeros(alignment_);
    for (const Tensor& tensor : tensors_) {
        FORESAY_CHECK_OK(output.write_all(tensor.data));
        const size_t padding = padded(tensor.data.size()) - tensor.data.size();
        FORESAY_CHECK_OK(output.write_all(std::span(zeros).first(padding)));
    }
    FORESAY_CHECK_OK(output.finish());
    if (!is_device && std::rename(temporary.c_str(), path.c_str()) != 0) {
        const Error failure = output.failure("can't rename the finished file");
        unlink(temporary.c_str());
        return failure;
    }
    return ok();
}

}  // namespace foresay::gguf
