// Typed reading of request fields: aliases, defaults, ranges, and errors that name the field as the client spelt it.
// Internal to server/api. Source: shared/spec/server-api.md, section 3 (numbers, wrong type, out of range).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api/json.h"

namespace foresay::server {

/// Reads fields of one object; the first error stays and later reads do nothing, so that a parser reads like a table.
/// A field that is absent or null leaves *out as it was.
class Fields {
  public:
    using Names = std::initializer_list<std::string_view>;

    explicit Fields(const JsonIn& object, std::string prefix = {}) : object_(object), prefix_(std::move(prefix)) {}

    /// The value under the first of the names that is there and not null; null when none is. *spelt: "prefix" + that
    /// name.
    const JsonIn* find(Names names, std::string* spelt) const;
    bool has(std::string_view name) const;

    /// Fractions are cut, booleans count as 0 and 1. Outside low..high: an error.
    void integer(Names names, int64_t low, int64_t high, int32_t* out);
    void integer64(Names names, int64_t low, int64_t high, int64_t* out);
    /// As integer, but a fraction or a boolean is an error: 2.5 drafted tokens can't be meant.
    void strict_integer(Names names, int64_t low, int64_t high, int32_t* out);
    /// Below low or above high: moved there.
    void clamped_integer(Names names, int64_t low, int64_t high, int32_t* out);
    /// Must fit a finite float. Outside low..high: an error, or moved there by the clamped form.
    void number(Names names, double low, double high, float* out);
    void clamped_number(Names names, double low, double high, float* out);
    void boolean(Names names, bool* out);
    void text(Names names, std::string* out);

    void fail(Error error);
    void fail(const std::string& spelt, const std::string& message);

    const Status& status() const { return status_; }

    bool failed() const { return !status_.has_value(); }

  private:
    bool read_integer(Names names, bool strict, int64_t* out, std::string* spelt);
    bool read_number(Names names, double* out, std::string* spelt);

    const JsonIn& object_;
    std::string prefix_;
    Status status_;
};

}  // namespace foresay::server
