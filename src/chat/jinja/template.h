// Chat templates: a subset of Jinja that renders as Python's jinja2 does in the sandbox that Hugging Face uses
// (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls, its tojson, raise_exception,
// strftime_now). A template is an untrusted program from a model file: its work, output, memory and depth have limits,
// and it sees nothing but the variables it is given. Must not know chats, models or HTTP. Read next: parser.h,
// interpreter.h.
#pragma once

#include <cstddef>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace foresay::jinja {

struct Limits {
    /// Steps of evaluation (a node of the tree, an item of a list, 64 bytes of text): about a second.
    size_t max_steps = 20'000'000;
    /// Longest text: the output, and each string on the way.
    size_t max_text_bytes = 16U << 20U;
    /// All values that live at one time.
    size_t max_live_bytes = 256U << 20U;
    /// Largest source that is parsed.
    static constexpr size_t kMaxSourceBytes = 1U << 20U;
};

struct RenderOptions {
    Limits limits;
    /// What strftime_now shows; the local time if absent.
    std::optional<std::tm> now;
};

struct ParseOptions {
    /// Takes {% generation %}...{% endgeneration %}, Hugging Face's mark of what a model wrote, as its contents.
    bool generation_tag = false;
};

class Template {
  public:
    /// Errors: invalid_argument (syntax, not UTF-8, too large) or unsupported (a tag, filter or test that jinja2 or
    /// this subset doesn't have), both with line and column.
    static Result<Template> parse(std::string_view source, const ParseOptions& options = {});

    Template(Template&&) noexcept;
    Template& operator=(Template&&) noexcept;
    ~Template();

    /// variables: an object; its members are the template's variables, in UTF-8.
    /// Errors: invalid_argument (raise_exception, a wrong type, an undefined value that is used), with line and column;
    /// capacity (a limit). Threads: const, any number of callers.
    Result<std::string> render(const nlohmann::ordered_json& variables, const RenderOptions& options = {}) const;

    const std::string& source() const;

  private:
    struct Impl;
    explicit Template(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace foresay::jinja
