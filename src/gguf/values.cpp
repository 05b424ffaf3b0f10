// Typed access to metadata. An integer key takes any integer type whose value fits; floats are never read as integers.
#include <fmt/format.h>

#include <limits>
#include <new>
#include <stdexcept>

#include "gguf/cursor.h"
#include "gguf/impl.h"

namespace foresay::gguf {

namespace {

bool is_integer(ValueType type) {
    switch (type) {
        case ValueType::kU8:
        case ValueType::kI8:
        case ValueType::kU16:
        case ValueType::kI16:
        case ValueType::kU32:
        case ValueType::kI32:
        case ValueType::kU64:
        case ValueType::kI64:
            return true;
        default:
            return false;
    }
}

/// An integer or bool at p. false: a uint64 beyond int64.
bool load_integer(ValueType type, const std::byte* p, int64_t* out) {
    switch (type) {
        case ValueType::kU8:
        case ValueType::kBool:
            *out = load<uint8_t>(p);
            return true;
        case ValueType::kI8:
            *out = load<int8_t>(p);
            return true;
        case ValueType::kU16:
            *out = load<uint16_t>(p);
            return true;
        case ValueType::kI16:
            *out = load<int16_t>(p);
            return true;
        case ValueType::kU32:
            *out = load<uint32_t>(p);
            return true;
        case ValueType::kI32:
            *out = load<int32_t>(p);
            return true;
        case ValueType::kI64:
            *out = load<int64_t>(p);
            return true;
        case ValueType::kU64: {
            const auto v = load<uint64_t>(p);
            *out = static_cast<int64_t>(v);
            return v <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
        }
        default:
            return false;
    }
}

std::string type_text(const Value& value) {
    return value.type == ValueType::kArray ? fmt::format("array of {}", value_type_name(value.element))
                                           : std::string(value_type_name(value.type));
}

Error wrong_type(const Value& value, const std::string& file, std::string_view wanted) {
    return error(Code::kBadFile, fmt::format("the value has type {}, expected {}", type_text(value), wanted),
                 key_place(file, value.key));
}

Error too_large(const Value& value, const std::string& file, std::string_view wanted) {
    return error(Code::kBadFile, fmt::format("the value does not fit {}", wanted), key_place(file, value.key));
}

Result<float> float_of(const Value& value, const std::string& file) {
    if (value.type == ValueType::kF32) {
        return load<float>(value.raw.data());
    }
    if (value.type == ValueType::kF64) {
        return static_cast<float>(load<double>(value.raw.data()));
    }
    return wrong_type(value, file, "a float");
}

Result<bool> bool_of(const Value& value, const std::string& file) {
    if (value.type != ValueType::kBool) {
        return wrong_type(value, file, "a bool");
    }
    return load<uint8_t>(value.raw.data()) != 0;
}

Result<std::string_view> string_of(const Value& value, const std::string& file) {
    if (value.type != ValueType::kString) {
        return wrong_type(value, file, "a string");
    }
    return std::string_view(reinterpret_cast<const char*>(value.raw.data()), value.raw.size());
}

Result<uint32_t> u32_of(const Value& value, const std::string& file) {
    FORESAY_TRY(const int64_t wide, integer_of(value, file));
    if (wide < 0 || wide > int64_t{std::numeric_limits<uint32_t>::max()}) {
        return error(Code::kBadFile, fmt::format("the value {} does not fit 32 bits without sign", wide),
                     key_place(file, value.key));
    }
    return static_cast<uint32_t>(wide);
}

Result<const Value*> need(const File& file, std::string_view key) {
    const Value* value = file.find(key);
    if (value == nullptr) {
        return error(Code::kBadFile, "the key is missing", key_place(file.path(), key));
    }
    return value;
}

/// Runs something that allocates by a size from the file or the caller.
template <typename T, typename Make>
Result<std::vector<T>> with_memory(const File& file, std::string_view key, Make make) {
    try {
        return make();
    } catch (const std::bad_alloc&) {
        return error(Code::kOutOfMemory, "no memory for the array", key_place(file.path(), key));
    } catch (const std::length_error&) {
        return error(Code::kOutOfMemory, "the array is too long for memory", key_place(file.path(), key));
    }
}

Result<std::vector<int64_t>> integers_of(const Value& value, const std::string& file) {
    if (value.type != ValueType::kArray || (!is_integer(value.element) && value.element != ValueType::kBool)) {
        return wrong_type(value, file, "an array of integers");
    }
    const size_t step = value_size(value.element);
    std::vector<int64_t> out(static_cast<size_t>(value.n));
    for (size_t i = 0; i < out.size(); ++i) {
        if (!load_integer(value.element, value.raw.data() + i * step, &out[i])) {
            return too_large(value, file, fmt::format("64 bits with sign at element {}", i));
        }
    }
    return out;
}

}  // namespace

Result<int64_t> integer_of(const Value& value, const std::string& file) {
    if (!is_integer(value.type)) {
        return wrong_type(value, file, "an integer");
    }
    int64_t out = 0;
    if (!load_integer(value.type, value.raw.data(), &out)) {
        return too_large(value, file, "64 bits with sign");
    }
    return out;
}

Result<uint32_t> File::u32(std::string_view key) const {
    FORESAY_TRY(const Value* value, need(*this, key));
    return u32_of(*value, path());
}

Result<int64_t> File::i64(std::string_view key) const {
    FORESAY_TRY(const Value* value, need(*this, key));
    return integer_of(*value, path());
}

Result<float> File::f32(std::string_view key) const {
    FORESAY_TRY(const Value* value, need(*this, key));
    return float_of(*value, path());
}

Result<bool> File::boolean(std::string_view key) const {
    FORESAY_TRY(const Value* value, need(*this, key));
    return bool_of(*value, path());
}

Result<std::string_view> File::string(std::string_view key) const {
    FORESAY_TRY(const Value* value, need(*this, key));
    return string_of(*value, path());
}

Result<uint32_t> File::u32_or(std::string_view key, uint32_t fallback) const {
    return find(key) == nullptr ? Result<uint32_t>(fallback) : u32(key);
}

Result<float> File::f32_or(std::string_view key, float fallback) const {
    return find(key) == nullptr ? Result<float>(fallback) : f32(key);
}

Result<bool> File::bool_or(std::string_view key, bool fallback) const {
    return find(key) == nullptr ? Result<bool>(fallback) : boolean(key);
}

Result<std::string_view> File::string_or(std::string_view key, std::string_view fallback) const {
    return find(key) == nullptr ? Result<std::string_view>(fallback) : string(key);
}

Result<std::vector<int64_t>> File::i64_array(std::string_view key) const {
    FORESAY_TRY(const Value* value, need(*this, key));
    return with_memory<int64_t>(*this, key, [&] { return integers_of(*value, path()); });
}

Result<std::vector<float>> File::f32_array(std::string_view key) const {
    FORESAY_TRY(const Value* value, need(*this, key));
    const bool wide = value->element == ValueType::kF64;
    if (value->type != ValueType::kArray || (!wide && value->element != ValueType::kF32)) {
        return wrong_type(*value, path(), "an array of floats");
    }
    return with_memory<float>(*this, key, [&]() -> Result<std::vector<float>> {
        std::vector<float> out(static_cast<size_t>(value->n));
        for (size_t i = 0; i < out.size(); ++i) {
            const std::byte* p = value->raw.data() + i * value_size(value->element);
            out[i] = wide ? static_cast<float>(load<double>(p)) : load<float>(p);
        }
        return out;
    });
}

Result<std::vector<std::string_view>> File::string_array(std::string_view key) const {
    FORESAY_TRY(const Value* value, need(*this, key));
    if (value->type != ValueType::kArray || value->element != ValueType::kString) {
        return wrong_type(*value, path(), "an array of strings");
    }
    return with_memory<std::string_view>(*this, key, [&]() -> Result<std::vector<std::string_view>> {
        std::vector<std::string_view> out;
        out.reserve(static_cast<size_t>(value->n));
        const std::byte* p = value->raw.data();
        for (uint64_t i = 0; i < value->n; ++i) {  // the lengths were checked when the file was opened
            const auto length = static_cast<size_t>(load<uint64_t>(p));
            p += sizeof(uint64_t);
            out.emplace_back(reinterpret_cast<const char*>(p), length);
            p += length;
        }
        return out;
    });
}

Result<std::vector<int64_t>> File::i64_scalar_or_array(std::string_view key, size_t n, int64_t fallback) const {
    return with_memory<int64_t>(*this, key, [&]() -> Result<std::vector<int64_t>> {
        const Value* value = find(key);
        if (value == nullptr) {
            return std::vector<int64_t>(n, fallback);
        }
        if (value->type != ValueType::kArray) {
            int64_t scalar = 0;
            if (value->type == ValueType::kBool) {
                load_integer(value->type, value->raw.data(), &scalar);
                return std::vector<int64_t>(n, scalar);
            }
            FORESAY_TRY(scalar, integer_of(*value, path()));
            return std::vector<int64_t>(n, scalar);
        }
        FORESAY_TRY(std::vector<int64_t> all, integers_of(*value, path()));
        if (all.size() < n) {
            return error(Code::kBadFile, fmt::format("the array has {} elements, needed are {}", all.size(), n),
                         key_place(path(), key));
        }
        all.resize(n);
        return all;
    });
}

}  // namespace foresay::gguf
