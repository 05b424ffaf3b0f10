#include "server/api/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace foresay::server {
namespace {

constexpr double kMaxFloat = std::numeric_limits<float>::max();

std::string type_message(const char* wanted, const JsonIn& value) {
    return fmt::format("type must be {}, but is {}", wanted, value.type_name());
}

template <typename T>
std::string range_message(T low, T high, const JsonIn& got) {
    return fmt::format("Value must be between {} <= value <= {}, but got {}", low, high, got.dump());
}

}  // namespace

const JsonIn* Fields::find(Names names, std::string* spelt) const {
    for (const std::string_view name : names) {
        const auto it = object_.find(std::string(name));
        if (it != object_.end() && !it->is_null()) {
            *spelt = prefix_ + std::string(name);
            return &*it;
        }
    }
    return nullptr;
}

bool Fields::has(std::string_view name) const {
    std::string spelt;
    return find({name}, &spelt) != nullptr;
}

void Fields::fail(Error error) {
    if (status_.has_value()) {
        status_ = Status(std::move(error));
    }
}

void Fields::fail(const std::string& spelt, const std::string& message) {
    fail(error(Code::kInvalidArgument, fmt::format("Field '{}': {}", spelt, message)));
}

bool Fields::read_integer(Names names, bool strict, int64_t* out, std::string* spelt) {
    const JsonIn* value = failed() ? nullptr : find(names, spelt);
    if (value == nullptr) {
        return false;
    }
    if (value->is_number_unsigned()) {
        // Above the signed range: any limit refuses it.
        *out = static_cast<int64_t>(std::min<uint64_t>(value->get<uint64_t>(), std::numeric_limits<int64_t>::max()));
    } else if (value->is_number_integer()) {
        *out = value->get<int64_t>();
    } else if (value->is_number_float()) {
        const double number = value->get<double>();
        if (strict && number != std::trunc(number)) {
            fail(*spelt, fmt::format("must be an integer, but is {}", value->dump()));
            return false;
        }
        constexpr double kLimit = 9.2e18;  // a little inside int64: the cast must be defined
        *out = static_cast<int64_t>(std::clamp(number, -kLimit, kLimit));
    } else if (value->is_boolean() && !strict) {
        *out = value->get<bool>() ? 1 : 0;
    } else {
        fail(*spelt, type_message("number", *value));
        return false;
    }
    return true;
}

void Fields::integer64(Names names, int64_t low, int64_t high, int64_t* out) {
    int64_t value = 0;
    std::string spelt;
    if (!read_integer(names, false, &value, &spelt)) {
        return;
    }
    if (value < low || value > high) {
        fail(spelt, range_message(low, high, *find(names, &spelt)));
        return;
    }
    *out = value;
}

void Fields::integer(Names names, int64_t low, int64_t high, int32_t* out) {
    int64_t value = *out;
    integer64(names, low, high, &value);
    *out = static_cast<int32_t>(value);
}

void Fields::strict_integer(Names names, int64_t low, int64_t high, int32_t* out) {
    int64_t value = 0;
    std::string spelt;
    if (!read_integer(names, true, &value, &spelt)) {
        return;
    }
    if (value < low || value > high) {
        fail(spelt, range_message(low, high, *find(names, &spelt)));
        return;
    }
    *out = static_cast<int32_t>(value);
}

void Fields::clamped_integer(Names names, int64_t low, int64_t high, int32_t* out) {
    int64_t value = 0;
    std::string spelt;
    if (read_integer(names, false, &value, &spelt)) {
        *out = static_cast<int32_t>(std::clamp(value, low, high));
    }
}

bool Fields::read_number(Names names, double* out, std::string* spelt) {
    const JsonIn* value = failed() ? nullptr : find(names, spelt);
    if (value == nullptr) {
        return false;
    }
    if (value->is_boolean()) {
        *out = value->get<bool>() ? 1.0 : 0.0;
        return true;
    }
    if (!value->is_number()) {
        fail(*spelt, type_message("number", *value));
        return false;
    }
    *out = value->get<double>();
    if (!(std::abs(*out) <= kMaxFloat)) {
        fail(*spelt, range_message(-kMaxFloat, kMaxFloat, *value));
        return false;
    }
    return true;
}

void Fields::number(Names names, double low, double high, float* out) {
    double value = 0.0;
    std::string spelt;
    if (!read_number(names, &value, &spelt)) {
        return;
    }
    if (value < low || value > high) {
        fail(spelt, range_message(low, high, *find(names, &spelt)));
        return;
    }
    *out = static_cast<float>(value);
}

void Fields::clamped_number(Names names, double low, double high, float* out) {
    double value = 0.0;
    std::string spelt;
    if (read_number(names, &value, &spelt)) {
        *out = static_cast<float>(std::clamp(value, low, high));
    }
}

void Fields::boolean(Names names, bool* out) {
    std::string spelt;
    const JsonIn* value = failed() ? nullptr : find(names, &spelt);
    if (value == nullptr) {
        return;
    }
    if (!value->is_boolean()) {
        fail(spelt, type_message("boolean", *value));
        return;
    }
    *out = value->get<bool>();
}

void Fields::text(Names names, std::string* out) {
    std::string spelt;
    const JsonIn* value = failed() ? nullptr : find(names, &spelt);
    if (value == nullptr) {
        return;
    }
    if (!value->is_string()) {
        fail(spelt, type_message("string", *value));
        return;
    }
    *out = value->get<std::string>();
}

}  // namespace foresay::server
