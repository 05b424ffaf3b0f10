// The values of templates: what Python's jinja2 would show of None, bool, int, float, str, list, tuple, dict.
// Values are immutable (the sandbox of Hugging Face forbids list.append and dict.pop too); only a namespace can change.
// No value refers to anything of the program: a template reaches what it was given and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace foresay::jinja {

class Value;
struct Callable;
struct Loop;

/// Deepest nesting of lists, dicts and what holds them: destroying, comparing and printing values recurses.
inline constexpr int kMaxValueDepth = 100;

/// Bytes that the values of one render hold. A value adds its size when made and takes it off when it dies.
struct Meter {
    size_t live_bytes = 0;
};

/// What a container has in common: its depth and its share of the meter. meter: null for values that outlive renders.
class Metered {
  public:
    Metered(Meter* meter, size_t bytes) : meter_(meter), bytes_(bytes) {
        if (meter_ != nullptr) {
            meter_->live_bytes += bytes_;
        }
    }

    Metered(const Metered&) = delete;
    Metered& operator=(const Metered&) = delete;
    Metered(Metered&&) = delete;
    Metered& operator=(Metered&&) = delete;

    ~Metered() {
        if (meter_ != nullptr) {
            meter_->live_bytes -= bytes_;
        }
    }

  private:
    Meter* meter_;
    size_t bytes_;
};

struct Text {
    std::string text;
    bool is_markup = false;  ///< came through `safe`: text added to it is HTML-escaped, as jinja2's Markup does
    Metered metered;

    explicit Text(std::string s, Meter* meter = nullptr, bool markup = false)
        : text(std::move(s)), is_markup(markup), metered(meter, sizeof(Text) + text.capacity()) {}
};

/// What a name, key or attribute that isn't there gives. Using it is an error; printing it prints nothing.
struct Missing {
    std::string message;  ///< the error of using it: "'x' is undefined"
};

struct List;
struct Dict;
struct Namespace;

enum class Kind : uint8_t { kUndefined, kNone, kBool, kInt, kFloat, kText, kList, kDict, kNamespace, kLoop, kCallable };

class Value {
  public:
    struct None {};

    Value() : data_(std::shared_ptr<const Missing>()) {}

    Value(None) : data_(None{}) {}

    Value(bool b) : data_(b) {}

    Value(int64_t i) : data_(i) {}

    Value(double d) : data_(d) {}

    Value(std::shared_ptr<const Missing> missing) : data_(std::move(missing)) {}

    Value(std::shared_ptr<const Text> text) : data_(std::move(text)) {}

    Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}

    Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}

    Value(std::shared_ptr<Namespace> ns) : data_(std::move(ns)) {}

    Value(std::shared_ptr<Loop> loop) : data_(std::move(loop)) {}

    Value(std::shared_ptr<const Callable> callable) : data_(std::move(callable)) {}

    Value(const char*) = delete;  // would be a bool

    /// A string that no render's meter counts: constants of a template, names.
    static Value constant(std::string text) { return Value(std::make_shared<const Text>(std::move(text))); }

    Kind kind() const { return static_cast<Kind>(data_.index()); }

    bool is_undefined() const { return kind() == Kind::kUndefined; }

    bool is_none() const { return kind() == Kind::kNone; }

    bool is_text() const { return kind() == Kind::kText; }

    bool is_list() const { return kind() == Kind::kList; }

    bool is_dict() const { return kind() == Kind::kDict; }

    /// int or bool, which is an int to Python.
    bool is_integer() const { return kind() == Kind::kInt || kind() == Kind::kBool; }

    bool is_number() const { return is_integer() || kind() == Kind::kFloat; }

    // The accessors require the kind.
    bool as_bool() const { return std::get<bool>(data_); }

    int64_t as_integer() const { return kind() == Kind::kBool ? (as_bool() ? 1 : 0) : std::get<int64_t>(data_); }

    double as_float() const {
        return kind() == Kind::kFloat ? std::get<double>(data_) : static_cast<double>(as_integer());
    }

    const std::string& as_text() const { return std::get<std::shared_ptr<const Text>>(data_)->text; }

    bool is_markup() const { return is_text() && std::get<std::shared_ptr<const Text>>(data_)->is_markup; }

    const List& as_list() const { return *std::get<std::shared_ptr<const List>>(data_); }

    const std::shared_ptr<const List>& list_ptr() const { return std::get<std::shared_ptr<const List>>(data_); }

    const Dict& as_dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }

    Namespace& as_namespace() const { return *std::get<std::shared_ptr<Namespace>>(data_); }

    Loop& as_loop() const { return *std::get<std::shared_ptr<Loop>>(data_); }

    const Callable& as_callable() const { return *std::get<std::shared_ptr<const Callable>>(data_); }

    /// Null for the plain undefined.
    const Missing* as_missing() const { return std::get<std::shared_ptr<const Missing>>(data_).get(); }

    /// Nesting below this value: 0 for scalars.
    int depth() const;

  private:
    std::variant<std::shared_ptr<const Missing>, None, bool, int64_t, double, std::shared_ptr<const Text>,
                 std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                 std::shared_ptr<Loop>, std::shared_ptr<const Callable>>
        data_;
};

/// A sequence. kView: dict.keys() and its kin (can be walked and counted, not indexed); kGenerator: map() and its kin
/// (can be walked once).
struct List {
    enum class Form : uint8_t { kList, kTuple, kView, kGenerator };

    std::vector<Value> items;
    Form form = Form::kList;
    int depth = 1;
    mutable bool is_spent = false;  ///< a generator that was walked
    Metered metered;

    List(std::vector<Value> values, Form list_form, Meter* meter);
};

/// A mapping in insertion order. Keys are str, int, float, bool or None; 1, 1.0 and True are one key.
struct Dict {
    std::vector<std::pair<Value, Value>> entries;
    int depth = 1;
    Metered metered;

    /// entries: a later one with the same key replaces the value of the earlier.
    Dict(std::vector<std::pair<Value, Value>> values, Meter* meter);

    /// Null where there is none.
    const Value* find(const Value& key) const;
    const Value* find(std::string_view key) const;

  private:
    /// Position of a key; built for more than a few entries.
    std::unordered_map<std::string, size_t> index_;
};

/// What `namespace()` gives: attributes that templates may set. Held by the render until its end (cycles).
struct Namespace {
    std::vector<std::pair<std::string, Value>> attributes;

    const Value* find(std::string_view name) const;
    void set(std::string_view name, Value value);
};

/// True if a value can be a key of a dict.
bool is_hashable(const Value& value);

/// Python's truth: false for undefined, None, False, 0, "", and empty containers.
bool is_true(const Value& value);
/// ==, also between int and float; lists and dicts by content. *budget falls by the work done; at 0 the comparison
/// stops and its answer means nothing (lists that share parts can have exponentially many paths).
bool is_equal(const Value& a, const Value& b, size_t* budget);
/// The Python name of the type, as in its error messages: "str", "dict", "NoneType".
std::string_view type_name(const Value& value);
/// The name that jinja2 gives an object in messages: "dict object", "str object".
std::string object_name(const Value& value);

/// Appends str(value). Errors: longer than max_bytes in total.
Status append_str(const Value& value, size_t max_bytes, std::string* out);
/// Appends repr(value): strings quoted.
Status append_repr(const Value& value, size_t max_bytes, std::string* out);

}  // namespace foresay::jinja
