// The state of one render that values are made in and looked into: limits, memory, attributes, iteration.
// Internal to jinja; filters, tests and methods get it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/jinja/callable.h"
#include "chat/jinja/template.h"
#include "chat/jinja/value.h"

namespace foresay::jinja {

using Entries = std::vector<std::pair<Value, Value>>;

class Render {
  public:
    explicit Render(const RenderOptions& options) : options_(options) {}

    ~Render();
    Render(const Render&) = delete;
    Render& operator=(const Render&) = delete;
    Render(Render&&) = delete;
    Render& operator=(Render&&) = delete;

    const RenderOptions& options() const { return options_; }

    size_t max_text() const { return options_.limits.max_text_bytes; }

    /// Takes n steps off. Errors: the limit is reached.
    Status charge(size_t n);

    /// Takes the steps of going through so many bytes off.
    Status charge_text(size_t bytes) { return charge(1 + bytes / 64); }

    /// Errors: a text of so many bytes is longer than allowed. To be asked before it is made.
    Status check_text(size_t bytes) const;
    /// Errors: the values that live take more memory than allowed.
    Status check_memory() const;

    // Making values. Errors: a limit.
    Result<Value> text(std::string text, bool is_markup = false);
    Result<Value> list(std::vector<Value> items, List::Form form = List::Form::kList);
    Result<Value> dict(Entries entries);
    Result<Value> name_space(std::vector<std::pair<std::string, Value>> attributes);
    Result<Value> callable(Callable callable);
    /// From JSON, to kMaxValueDepth levels.
    Result<Value> from_json(const nlohmann::ordered_json& json);

    // Looking into values.
    /// object.name. A missing attribute is an undefined value; errors: object is undefined.
    Result<Value> attribute(const Value& object, std::string_view name);
    /// object[key].
    Result<Value> item(const Value& object, const Value& key);
    /// The items that a for would see. A generator can be asked once. Errors: not iterable.
    Result<std::shared_ptr<const List>> items(const Value& value);
    /// str(value). Errors: a limit.
    Result<std::string> str(const Value& value);
    Result<bool> equal(const Value& a, const Value& b);
    /// a < b. Errors: types that have no order.
    Result<bool> less(const Value& a, const Value& b);
    /// item in container.
    Result<bool> contains(const Value& container, const Value& item);

    /// An undefined value whose use is the error `message`.
    static Value missing(std::string message);
    /// The error of using an undefined value.
    static Error undefined_error(const Value& undefined);

    /// Namespaces live until the end of the render: they can form cycles and chains that no limit on depth catches.
    std::vector<std::shared_ptr<Namespace>> namespaces;
    Meter meter;

  private:
    Result<Value> list_item(const Value& object, int64_t index);

    const RenderOptions& options_;
    size_t steps_ = 0;
};

/// An invalid_argument error; the interpreter adds the place.
Error type_error(std::string message);

/// HTML's special characters as entities.
std::string html_escaped(std::string_view text);

/// What `tojson` takes.
struct JsonStyle {
    int indent = -1;  ///< below 0: one line
    bool ascii = false;
    bool sort_keys = false;
    std::string item_separator;  ///< empty: Python's default
    std::string key_separator;
};

/// json.dumps(value). Errors: a value that JSON doesn't have; a limit.
Result<std::string> to_json(Render& render, const Value& value, const JsonStyle& style);
/// text.format(...), text % arguments. Errors: a field that isn't there, an unknown conversion.
Result<std::string> format_braces(Render& render, std::string_view text, const Args& args);
Result<std::string> format_percent(Render& render, std::string_view text, const Value& arguments);

}  // namespace foresay::jinja
