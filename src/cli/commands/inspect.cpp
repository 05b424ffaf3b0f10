// foresay inspect: what a GGUF file holds and what Foresay can do with it.
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "backend/cpu/isa.h"
#include "backend/cpu/tile_layout.h"
#include "cli/commands/commands.h"
#include "gguf/gguf.h"
#include "model/architecture.h"
#include "model/model.h"
#include "tensor/dtype.h"

namespace foresay::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownText = 70;       // characters of a string in the table
constexpr uint64_t kShownElements = 6;  // of an array

std::string_view type_name(gguf::ValueType type) {
    static constexpr std::string_view kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                  "bool", "string", "array", "u64", "i64", "f64"};
    const auto index = static_cast<size_t>(type);
    return index < std::size(kNames) ? kNames[index] : "?";
}

template <typename T>
T load(std::span<const std::byte> bytes) {
    T value{};
    if (bytes.size() >= sizeof(T)) {
        std::memcpy(&value, bytes.data(), sizeof(T));
    }
    return value;
}

/// One encoded element; *used is set to the bytes it takes. The file has been checked when it was opened.
Json element(gguf::ValueType type, std::span<const std::byte> bytes, size_t* used) {
    const auto number = [&](auto value) {
        *used = sizeof(value);
        return Json(value);
    };
    switch (type) {
        case gguf::ValueType::kU8:
            return number(load<uint8_t>(bytes));
        case gguf::ValueType::kI8:
            return number(load<int8_t>(bytes));
        case gguf::ValueType::kU16:
            return number(load<uint16_t>(bytes));
        case gguf::ValueType::kI16:
            return number(load<int16_t>(bytes));
        case gguf::ValueType::kU32:
            return number(load<uint32_t>(bytes));
        case gguf::ValueType::kI32:
            return number(load<int32_t>(bytes));
        case gguf::ValueType::kF32:
            return number(load<float>(bytes));
        case gguf::ValueType::kU64:
            return number(load<uint64_t>(bytes));
        case gguf::ValueType::kI64:
            return number(load<int64_t>(bytes));
        case gguf::ValueType::kF64:
            return number(load<double>(bytes));
        case gguf::ValueType::kBool:
            *used = 1;
            return Json(load<uint8_t>(bytes) != 0);
        default:
            *used = bytes.size();
            return Json();
    }
}

Json first_elements(const gguf::File& file, const gguf::Value& value, uint64_t limit) {
    Json list = Json::array();
    if (value.element == gguf::ValueType::kString) {
        if (const auto strings = file.string_array(value.key); strings.has_value()) {
            for (size_t i = 0; i < strings->size() && i < limit; ++i) {
                list.push_back(std::string((*strings)[i]));
            }
        }
        return list;
    }
    std::span<const std::byte> rest = value.raw;
    for (uint64_t i = 0; i < value.n && i < limit && !rest.empty(); ++i) {
        size_t used = 0;
        list.push_back(element(value.element, rest, &used));
        rest = rest.subspan(std::min(used, rest.size()));
    }
    return list;
}

Json value_json(const gguf::File& file, const gguf::Value& value) {
    if (value.type == gguf::ValueType::kString) {
        const auto text = file.string(value.key);
        return text.has_value() ? Json(std::string(*text)) : Json();
    }
    if (value.type == gguf::ValueType::kArray) {
        // Vocabularies have 100,000s of entries: a look at the first, and how many there are.
        return Json{{"n", value.n},
                    {"element", type_name(value.element)},
                    {"first", first_elements(file, value, kShownElements)}};
    }
    size_t used = 0;
    return element(value.type, value.raw, &used);
}

/// JSON text on one line, bytes that are no UTF-8 replaced, cut to the table's width.
std::string short_text(const Json& json) {
    std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > kShownText) {
        size_t end = kShownText;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
            --end;  // not inside a character
        }
        text = text.substr(0, end) + "...";
    }
    return text;
}

std::string tensor_type_name(int32_t type) {
    const std::string_view name = gguf_type_name(type);
    return name.empty() ? fmt::format("type {}", type) : std::string(name);
}

std::string shape_text(const gguf::TensorInfo& tensor) {
    std::string text;
    for (int i = 0; i < tensor.n_dims; ++i) {
        text += fmt::format("{}{}", i == 0 ? "" : ", ", tensor.ne[static_cast<size_t>(i)]);
    }
    return '[' + text + ']';
}

/// The speculation type a file is made for, empty when it is an ordinary model. Source: draft-models.md, section 2.
std::string drafter_kind(const gguf::File& file, std::string_view architecture) {
    if (architecture == "eagle3") {
        return "draft-eagle3";
    }
    if (architecture == "dflash" || architecture == "dflash-draft") {
        return file.tensor("markov_w1.weight") != nullptr ? "draft-dspark" : "draft-dflash";
    }
    if (architecture == "gemma4-assistant" || architecture == "gemma4_mtp") {
        return "draft-mtp (assistant model)";
    }
    const auto n_layers = file.u32_or(fmt::format("{}.nextn_predict_layers", architecture), 0);
    return n_layers.has_value() && *n_layers > 0 ? fmt::format("draft-mtp ({} NextN layers)", *n_layers) : "";
}

/// A matrix of products, by its name: the others are vectors, rows looked up or taps of a convolution.
bool is_product_weight(const gguf::File& file, const gguf::TensorInfo& tensor) {
    if (tensor.n_dims < 2 || tensor.name.find("conv") != std::string::npos) {
        return false;
    }
    return tensor.name != "token_embd.weight" || file.tensor("output.weight") == nullptr;
}

/// How this machine computes with the tensor; empty: it can't.
std::string path_of(const gguf::File& file, const gguf::TensorInfo& tensor, cpu::Isa isa, bool repack) {
    const auto dtype = dtype_from_gguf(tensor.type);
    if (!dtype || !dtype_info(*dtype).is_weight) {
        return "";
    }
    return is_product_weight(file, tensor) ? cpu::product_path(*dtype, cpu::isa_name(isa), repack) : "plain";
}

struct Report {
    std::string architecture;
    std::string name;
    std::string drafter;
    uint64_t n_params = 0;
    uint64_t tensor_bytes = 0;

    struct TypeTotal {
        uint64_t n_tensors = 0;
        uint64_t bytes = 0;
    };

    std::map<std::string, TypeTotal> types;
    std::vector<std::string> paths;    ///< of each tensor: path_of
    std::vector<std::string> reasons;  ///< why it can't be computed here; empty: it can
};

Report make_report(const gguf::File& file, cpu::Isa isa, bool repack) {
    Report report;
    report.architecture = std::string(file.string_or("general.architecture", "").value_or(""));
    report.name = std::string(file.string_or("general.name", "").value_or(""));
    report.drafter = drafter_kind(file, report.architecture);
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        report.n_params += static_cast<uint64_t>(tensor.ne[0] * tensor.ne[1] * tensor.ne[2] * tensor.ne[3]);
        report.tensor_bytes += tensor.bytes;
        Report::TypeTotal& total = report.types[tensor_type_name(tensor.type)];
        ++total.n_tensors;
        total.bytes += tensor.bytes;
        report.paths.push_back(path_of(file, tensor, isa, repack));
    }
    report.reasons = model::unsupported_reasons(file);
    return report;
}

void print_json(const gguf::File& file, const Report& report) {
    Json json;
    json["path"] = file.path();
    json["version"] = file.version();
    json["n_shards"] = file.n_shards();
    json["file_bytes"] = file.file_bytes();
    json["alignment"] = file.alignment();
    json["architecture"] = report.architecture;
    json["n_params"] = report.n_params;
    json["tensor_bytes"] = report.tensor_bytes;
    json["drafter"] = report.drafter.empty() ? Json() : Json(report.drafter);
    json["supported"] = report.reasons.empty();
    json["unsupported_reasons"] = report.reasons;
    json["metadata"] = Json::object();
    for (const gguf::Value& value : file.values()) {
        json["metadata"][std::string(value.key)] = value_json(file, value);
    }
    json["tensors"] = Json::array();
    size_t index = 0;
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        Json shape = Json::array();
        for (int i = 0; i < tensor.n_dims; ++i) {
            shape.push_back(tensor.ne[static_cast<size_t>(i)]);
        }
        const std::string& path = report.paths[index++];
        json["tensors"].push_back(Json{{"name", tensor.name},
                                       {"type", tensor_type_name(tensor.type)},
                                       {"shape", shape},
                                       {"bytes", tensor.bytes},
                                       {"path", path.empty() ? Json() : Json(path)}});
    }
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_table(const gguf::File& file, const Report& report) {
    fmt::print("file          {}\n", file.path());
    fmt::print("format        GGUF {}, {}, {} shard{}, alignment {}\n", file.version(), human_bytes(file.file_bytes()),
               file.n_shards(), file.n_shards() == 1 ? "" : "s", file.alignment());
    fmt::print("architecture  {}\n", report.architecture.empty() ? "(none named)" : report.architecture);
    fmt::print("name          {}\n", report.name.empty() ? "(none)" : report.name);
    fmt::print("parameters    {}\n", human_count(report.n_params));
    fmt::print("\nmetadata ({}):\n", file.values().size());
    for (const gguf::Value& value : file.values()) {
        const std::string type = value.type == gguf::ValueType::kArray
                                     ? fmt::format("{}[{}]", type_name(value.element), value.n)
                                     : std::string(type_name(value.type));
        const Json shown = value.type == gguf::ValueType::kArray ? first_elements(file, value, kShownElements)
                                                                 : value_json(file, value);
        fmt::print("  {:<44} {:<14} {}\n", value.key, type, short_text(shown));
    }
    fmt::print("\ntensors ({}):\n", file.tensors().size());
    size_t index = 0;
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        const std::string& path = report.paths[index++];
        fmt::print("  {:<44} {:<8} {:<22} {:>10}  {}\n", tensor.name, tensor_type_name(tensor.type), shape_text(tensor),
                   human_bytes(tensor.bytes), path.empty() ? "no kernel" : path);
    }
    fmt::print("\ntotals:\n");
    for (const auto& [type, total] : report.types) {
        fmt::print("  {:<8} {:>5} tensors {:>10}\n", type, total.n_tensors, human_bytes(total.bytes));
    }
    fmt::print("  {:<8} {:>5} tensors {:>10}\n\n", "all", file.tensors().size(), human_bytes(report.tensor_bytes));
    if (!report.drafter.empty()) {
        fmt::print("drafter       {}; `foresay pair TARGET {}` says whether it fits\n", report.drafter, file.path());
    }
    if (report.reasons.empty()) {
        fmt::print("Foresay can run this file.\n");
        return;
    }
    fmt::print("Foresay can't run this file:\n");
    for (const std::string& reason : report.reasons) {
        fmt::print("  {}\n", reason);
    }
}

}  // namespace

int inspect_command(const Options& options) {
    const auto isa = cpu::parse_isa(options.engine.cpu_isa);
    if (!isa) {
        log::error("{}", isa.error().to_string());
        return 1;
    }
    int code = 0;
    bool is_first = true;
    for (const std::string& path : options.local.files) {
        const auto file = gguf::File::open(path);
        if (!file) {
            log::error("{}", file.error().to_string());
            code = 1;
            continue;
        }
        const Report report = make_report(**file, *isa, options.engine.repack);
        if (options.local.json) {
            print_json(**file, report);
        } else {
            fmt::print("{}", is_first ? "" : "\n");
            print_table(**file, report);
        }
        is_first = false;
    }
    return code;
}

}  // namespace foresay::cli
