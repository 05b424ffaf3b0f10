// Words for messages: value types, and names from the file made safe to print.
#include <fmt/format.h>

#include "gguf/parse.h"

namespace foresay::gguf {

namespace {

constexpr size_t kMaxPrinted = 64;

}  // namespace

std::string_view value_type_name(ValueType type) {
    constexpr std::array<std::string_view, 13> names{"uint8",  "int8",    "uint16", "int16",  "uint32",
                                                     "int32",  "float32", "bool",   "string", "array",
                                                     "uint64", "int64",   "float64"};
    const auto i = static_cast<size_t>(type);
    return i < names.size() ? names[i] : "unknown";
}

size_t value_size(ValueType type) {
    switch (type) {
        case ValueType::kU8:
        case ValueType::kI8:
        case ValueType::kBool:
            return 1;
        case ValueType::kU16:
        case ValueType::kI16:
            return 2;
        case ValueType::kU32:
        case ValueType::kI32:
        case ValueType::kF32:
            return 4;
        case ValueType::kU64:
        case ValueType::kI64:
        case ValueType::kF64:
            return 8;
        case ValueType::kString:
        case ValueType::kArray:
            break;
    }
    return 0;
}

std::string printable(std::string_view name) {
    std::string out;
    for (const char c : name.substr(0, kMaxPrinted)) {
        if (c >= 0x20 && c < 0x7f) {
            out += c;
        } else {
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
    if (name.size() > kMaxPrinted) {
        out += "...";
    }
    return out;
}

std::string key_place(const std::string& file, std::string_view key) {
    return fmt::format("{}: key '{}'", file, printable(key));
}

std::string tensor_place(const std::string& file, std::string_view name) {
    return fmt::format("{}: tensor '{}'", file, printable(name));
}

}  // namespace foresay::gguf
