// Errors as values. Owns Error, Result<T> and the one control-flow macro. Knows nothing else of Foresay.
// A failure that a file, a flag, a request or memory can cause is a Result; a programmer's mistake is FORESAY_ASSERT.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace foresay {

enum class Code {
    kInvalidArgument,
    kNotFound,
    kBadFile,
    kUnsupported,
    kOutOfMemory,
    kCapacity,
    kCancelled,
    kTimeout,
    kIo,
    kInternal
};

/// "invalid_argument", "bad_file", ...: the word used in logs and tests.
std::string_view code_name(Code code);

/// What went wrong. message: what was wrong, with the value seen; where: file, tensor, node, flag or field; hint: what
/// to do.
struct Error {
    Code code = Code::kInternal;
    std::string message;
    std::string where;
    std::string hint;

    /// "where: message (hint)", parts left out where empty.
    std::string to_string() const;
    /// The same error with `outer: ` in front of its place; for adding context on the way up.
    Error context(std::string_view outer) &&;
};

template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
  public:
    using tl::expected<T, Error>::expected;

    Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}
};

/// Success or an Error. Return `ok()` for success.
using Status = Result<void>;

inline Status ok() {
    return {};
}

/// Shorthand for the frequent case: an Error with code and message.
inline Error error(Code code, std::string message, std::string where = {}, std::string hint = {}) {
    return Error{code, std::move(message), std::move(where), std::move(hint)};
}

}  // namespace foresay

#define FORESAY_CONCAT_(a, b) a##b
#define FORESAY_CONCAT(a, b) FORESAY_CONCAT_(a, b)

/// FORESAY_TRY(auto x, expr): x is the value of the Result expr, or the enclosing function returns its Error.
// NOLINTBEGIN(bugprone-macro-parentheses): decl is a declaration, which parentheses would break.
#define FORESAY_TRY(decl, expr)                                           \
    auto FORESAY_CONCAT(foresay_try_, __LINE__) = (expr);                 \
    if (!FORESAY_CONCAT(foresay_try_, __LINE__).has_value()) {            \
        return std::move(FORESAY_CONCAT(foresay_try_, __LINE__)).error(); \
    }                                                                     \
    decl = std::move(*FORESAY_CONCAT(foresay_try_, __LINE__))
// NOLINTEND(bugprone-macro-parentheses)

/// FORESAY_CHECK_OK(expr): returns the Error of a Status expr from the enclosing function.
#define FORESAY_CHECK_OK(expr)                                         \
    if (auto foresay_status_ = (expr); !foresay_status_.has_value()) { \
        return std::move(foresay_status_).error();                     \
    }
