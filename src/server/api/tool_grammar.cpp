#include "server/api/tool_grammar.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>
#include <vector>

#include "base/log.h"
#include "grammar/schema.h"
#include "server/api/json.h"
#include "server/api/mark_text.h"

namespace foresay::server {
namespace {

using chat::CallForm;
using grammar::gbnf_literal;

/// Blanks between the parts of a call; bounded, so that no model can fill its budget with them.
constexpr const char* kWs = "[ \\t\\n]{0,24}";
constexpr const char* kId = R"("\"" [a-zA-Z0-9_.:-]{1,64} "\"")";

struct Tool {
    std::string name;
    const Json* parameters = nullptr;  ///< null: none given
    std::string arguments;             ///< atom: the arguments as a JSON object (not for kXml)
};

/// {"name": ...} as the key of a JSON object.
std::string json_text(const std::string& text) {
    return gbnf_literal(dump(Json(text)));
}

std::string joined(const std::vector<std::string>& choices) {
    std::string out;
    for (const std::string& choice : choices) {
        out.append(out.empty() ? "" : " | ").append(choice);
    }
    return choices.size() == 1 ? out : fmt::format("({})", out);
}

bool is_text(const Json& schema) {
    const Json type = schema.is_object() && schema.contains("type") ? schema["type"] : Json();
    if (type.is_array()) {
        for (const Json& one : type) {
            if (one == "string") {
                return true;
            }
        }
        return false;
    }
    return type.is_string() ? type == "string" : true;  // without a type the reader takes any text
}

class Writer {
  public:
    Writer(const CallRules& rules, const vocab::Vocab& vocab)
        : rules_(rules), syntax_(*rules.syntax.calls), vocab_(vocab) {}

    Status write(sampling::Params* params) {
        FORESAY_CHECK_OK(read_tools());
        FORESAY_TRY(const std::string calls, this->calls());
        const bool has_content = !rules_.content_schema.empty() && !rules_.is_required;
        const bool is_lazy = !rules_.is_required && !has_content;
        std::string body = calls;
        if (has_content) {
            FORESAY_TRY(const std::string content, set_.add(rules_.content_schema));
            body = fmt::format("({} | {})", calls, content);
        }
        if (!is_lazy) {
            body = fmt::format("{}{} {}", thoughts(), kWs, body);
        }
        // Models end the last call with a newline.
        FORESAY_TRY(grammar::SchemaGrammar whole, set_.finish(fmt::format("{} {}", body, kWs)));
        for (const std::string& what : whole.ignored) {
            log::warn("tools: ignored: {}", what);
        }
        params->grammar = std::move(whole.gbnf) + extra_;
        params->grammar_lazy = is_lazy;
        params->grammar_triggers.clear();
        if (is_lazy) {
            params->grammar_triggers = triggers();
        }
        return ok();
    }

  private:
    std::string mark(std::string_view text) const { return mark_gbnf(vocab_, text); }

    std::string until(std::string_view end) {
        return text_until(vocab_, end, fmt::format("call-text-{}", n_texts_++), &extra_);
    }

    /// A name of its own for a body that is used more than once.
    std::string rule(const std::string& body) {
        std::string name = fmt::format("call-part-{}", n_rules_++);
        extra_ += fmt::format("{} ::= {}\n", name, body);
        return name;
    }

    Status read_tools() {
        for (const Json& tool : rules_.tools) {
            const Json& function = tool["function"];
            Tool read;
            read.name = function["name"].get<std::string>();
            const auto parameters = function.find("parameters");
            const bool has_parameters = parameters != function.end() && !parameters->is_null();
            read.parameters = has_parameters ? &*parameters : nullptr;
            if (syntax_.form != CallForm::kXml) {
                const bool is_any = !has_parameters || (parameters->is_object() && parameters->empty());
                Result<std::string> atom = set_.add(is_any ? R"({"type":"object"})" : dump(*parameters));
                if (!atom.has_value()) {
                    return of_tool(read.name, atom.error());
                }
                read.arguments = std::move(*atom);
            }
            tools_.push_back(std::move(read));
        }
        return ok();
    }

    static Error of_tool(const std::string& name, const Error& cause) {
        return error(Code::kInvalidArgument, fmt::format("tool '{}': JSON schema conversion failed: {}",
                                                         name.substr(0, 64), cause.to_string()));
    }

    std::string thoughts() {
        const chat::ThinkTags* think = rules_.syntax.think;
        if (syntax_.form == CallForm::kHarmony) {
            return fmt::format("({} {} {} {} {} {})? ", mark("<|channel|>"), R"("analysis")", mark("<|message|>"),
                               until("<|end|>"), mark("<|start|>"), R"("assistant")");
        }
        if (think == nullptr) {
            return "";
        }
        return rules_.starts_in_reasoning ? fmt::format("{} ", until(think->close))
                                          : fmt::format("({} {} {})? ", kWs, mark(think->open), until(think->close));
    }

    /// One call or several, with what stands around them.
    Result<std::string> calls() {
        switch (syntax_.form) {
            case CallForm::kJson:
                return syntax_.is_bare ? bare_calls() : sections(json_unit());
            case CallForm::kNamedJson:
                return syntax_.opens_prompt ? prompt_opened_calls() : sections(named_unit());
            case CallForm::kXml: {
                FORESAY_TRY(const std::string unit, xml_unit());
                return sections(unit);
            }
            case CallForm::kHarmony:
                return harmony_call();
        }
        return error(Code::kInternal, "no such form of calls");
    }

    std::string repeated(const std::string& unit) const {
        return rules_.is_parallel ? fmt::format("{} ({} {})*", unit, kWs, unit) : unit;
    }

    std::string sections(const std::string& body) {
        const std::string unit = rule(body);
        if (syntax_.section_open.empty()) {
            return repeated(unit);
        }
        const std::string open = mark(syntax_.section_open);
        const std::string close = mark(syntax_.section_close);
        if (syntax_.opens_alone) {
            return repeated(rule(fmt::format("({} {})? {} ({} {})?", open, kWs, repeated(unit), kWs, close)));
        }
        return fmt::format("{} {} {} {} {}", open, kWs, repeated(unit), kWs, close);
    }

    std::string json_object() {
        if (syntax_.name_key.empty()) {
            std::vector<std::string> choices;
            for (const Tool& tool : tools_) {
                choices.push_back(
                    fmt::format(R"("{{" {0} {1} {0} ":" {0} {2} {0} "}}")", kWs, json_text(tool.name), tool.arguments));
            }
            return rule(joined(choices));
        }
        const std::string id =
            rule(fmt::format(R"({} {} ":" {} {})", json_text(std::string(syntax_.id_key)), kWs, kWs, kId));
        std::vector<std::string> choices;
        for (const Tool& tool : tools_) {
            choices.push_back(fmt::format(R"({1} {0} "," {0} {2} {0} ":" {0} {3})", kWs, json_text(tool.name),
                                          json_text(std::string(syntax_.arguments_key)), tool.arguments));
        }
        return rule(fmt::format(R"("{{" {0} ({1} {0} "," {0})? {2} {0} ":" {0} {3} ({0} "," {0} {1})? {0} "}}")", kWs,
                                id, json_text(std::string(syntax_.name_key)), rule(joined(choices))));
    }

    std::string json_list(const std::string& object) const {
        const std::string more = rules_.is_parallel ? fmt::format(R"( ({0} "," {0} {1})*)", kWs, object) : "";
        return fmt::format(R"("[" {0} {1}{2} {0} "]")", kWs, object, more);
    }

    /// Between its marks a model writes an object, or a list of them: as its template showed it.
    std::string json_unit() {
        const std::string object = json_object();
        const bool is_several = syntax_.name == "tool-calls" && rules_.is_parallel;
        return fmt::format("{} {} ({} | {}) {} {}", mark(syntax_.open), kWs, is_several ? repeated(object) : object,
                           json_list(object), kWs, mark(syntax_.close));
    }

    std::string bare_calls() {
        const std::string object = json_object();
        const std::string more = rules_.is_parallel ? fmt::format(R"( ({0} ";" {0} {1})*)", kWs, object) : "";
        return fmt::format("({})? {}{}", mark(syntax_.open), object, more);
    }

    /// The name and what follows it up to the closing mark.
    std::string named_rest() {
        std::vector<std::string> choices;
        for (const Tool& tool : tools_) {
            std::string name = gbnf_literal(tool.name);
            if (syntax_.name == "kimi-k2") {
                name = fmt::format(R"("functions." {} ":" [0-9]{{1,3}})", name);
            }
            if (!syntax_.id_open.empty()) {
                name += fmt::format(" ({} [a-zA-Z0-9]{{1,64}})?", mark(syntax_.id_open));
            }
            choices.push_back(fmt::format("{} {} {} {}", name, mark(syntax_.name_close), kWs, tool.arguments));
        }
        return rule(joined(choices));
    }

    std::string named_unit() {
        const std::string rest = named_rest();
        if (syntax_.name == "mistral") {
            // The older templates of the family write a list of objects.
            return fmt::format("{} {} ({} | {})", mark(syntax_.open), kWs, rest, json_list(json_object()));
        }
        return fmt::format("{} {} {} {}", mark(syntax_.open), rest, kWs, mark(syntax_.close));
    }

    std::string prompt_opened_calls() {
        const std::string rest = named_rest();
        const std::string open = mark(syntax_.open);
        const std::string more = rules_.is_parallel ? fmt::format(" ({} {} {})*", kWs, open, rest) : "";
        return fmt::format("({})? {}{}", open, rest, more);
    }

    Result<std::string> xml_unit() {
        std::vector<std::string> choices;
        for (const Tool& tool : tools_) {
            Result<std::string> arguments = xml_arguments(tool);
            if (!arguments.has_value()) {
                return of_tool(tool.name, arguments.error());
            }
            choices.push_back(fmt::format("{} {}{}", gbnf_literal(tool.name), mark(syntax_.name_close), *arguments));
        }
        return fmt::format("{} {} {} {}", mark(syntax_.open), rule(joined(choices)), kWs, mark(syntax_.close));
    }

    Result<std::string> xml_arguments(const Tool& tool) {
        std::string out;
        if (tool.parameters == nullptr || !tool.parameters->is_object() || !tool.parameters->contains("properties") ||
            !(*tool.parameters)["properties"].is_object()) {
            return out;
        }
        const Json required = tool.parameters->value("required", Json::array());
        for (const auto& property : (*tool.parameters)["properties"].items()) {
            FORESAY_TRY(const std::string argument, xml_argument(property.key(), property.value()));
            bool is_required = false;
            for (const Json& key : required) {
                is_required = is_required || key == property.key();
            }
            const std::string part = fmt::format("{} {}", kWs, argument);
            out += is_required ? fmt::format(" {}", part) : fmt::format(" ({})?", part);
        }
        return out;
    }

    Result<std::string> xml_argument(const std::string& key, const Json& schema) {
        std::string value;
        if (!is_text(schema)) {
            FORESAY_TRY(const std::string atom, set_.add(dump(schema)));
            value = fmt::format("{} {} {} {}", kWs, atom, kWs, mark(syntax_.argument_close));
        } else if (schema.is_object() && schema.contains("enum") && schema["enum"].is_array()) {
            std::vector<std::string> choices;
            for (const Json& one : schema["enum"]) {
                choices.push_back(gbnf_literal(one.is_string() ? one.get<std::string>() : dump(one)));
            }
            value = choices.empty()
                        ? until(syntax_.argument_close)
                        : fmt::format(R"("\n"? {} "\n"? {})", joined(choices), mark(syntax_.argument_close));
        } else {
            value = until(syntax_.argument_close);
        }
        std::string head =
            fmt::format("{} {} {}", mark(syntax_.argument_open), gbnf_literal(key), mark(syntax_.argument_name_close));
        if (!syntax_.argument_tag_close.empty()) {
            head += is_text(schema) ? R"( " string=\"true\"" )" : R"( " string=\"false\"" )";
            head += mark(syntax_.argument_tag_close);
        }
        if (!syntax_.value_open.empty()) {
            head += fmt::format(" {} {}", kWs, mark(syntax_.value_open));
        }
        return rule(fmt::format("{} {}", head, value));
    }

    std::string harmony_call() {
        std::vector<std::string> choices;
        for (const Tool& tool : tools_) {
            choices.push_back(fmt::format(R"({} " "? ({} "commentary")? " "? ({})? "json"? {} {})",
                                          gbnf_literal(tool.name), mark("<|channel|>"), mark("<|constrain|>"),
                                          mark("<|message|>"), tool.arguments));
        }
        // A sleeping grammar wakes at the recipient; otherwise the channel comes first.
        const bool is_lazy = !rules_.is_required && rules_.content_schema.empty();
        const std::string head = is_lazy ? "" : fmt::format(R"(({} "commentary")? " "? )", mark("<|channel|>"));
        return fmt::format(R"({}"to=functions." {})", head, rule(joined(choices)));
    }

    std::vector<grammar::Trigger> triggers() const {
        using Kind = grammar::Trigger::Kind;
        std::vector<grammar::Trigger> out;
        const auto add = [&](grammar::Trigger trigger) {
            for (const grammar::Trigger& known : out) {
                if (known == trigger) {
                    return;
                }
            }
            out.push_back(std::move(trigger));
        };
        if (syntax_.form == CallForm::kHarmony) {
            add({Kind::kWord, "to=functions.", vocab::kNoToken});
            return out;
        }
        if (!syntax_.section_open.empty()) {
            add(mark_trigger(vocab_, syntax_.section_open));
        }
        if ((syntax_.section_open.empty() || syntax_.opens_alone) && !syntax_.opens_prompt) {
            // "functools" alone is a word that an answer may hold; no text has the others.
            const bool is_word = std::isalpha(static_cast<unsigned char>(syntax_.open.front())) != 0;
            add(is_word ? grammar::Trigger{Kind::kWord, std::string(syntax_.open) + "[", vocab::kNoToken}
                        : mark_trigger(vocab_, syntax_.open));
        }
        if (syntax_.is_bare) {
            add({Kind::kPatternFull, R"(\s*(\{\s*"name"\s*:)[\s\S]*)", vocab::kNoToken});
        }
        if (syntax_.opens_prompt) {
            std::string names;
            for (const Tool& tool : tools_) {
                names.append(names.empty() ? "" : "|").append(quoted(tool.name));
            }
            add({Kind::kPatternFull, fmt::format(R"(((?:{})\n)[\s\S]*)", names), vocab::kNoToken});
            add({Kind::kPattern, fmt::format(R"(({}(?:{})\n))", quoted(syntax_.open), names), vocab::kNoToken});
        }
        return out;
    }

    /// A text in a regular expression.
    static std::string quoted(std::string_view text) {
        std::string out;
        for (const char c : text) {
            const auto byte = static_cast<unsigned char>(c);
            if (byte < 0x80 && std::isalnum(byte) == 0) {
                out += fmt::format("\\x{:02x}", byte);
            } else {
                out += c;
            }
        }
        return out;
    }

    const CallRules& rules_;
    const chat::CallSyntax& syntax_;
    const vocab::Vocab& vocab_;
    grammar::SchemaSet set_;
    std::vector<Tool> tools_;
    std::string extra_;
    int n_texts_ = 0;
    int n_rules_ = 0;
};

}  // namespace

Status constrain_calls(const CallRules& rules, const vocab::Vocab& vocab, sampling::Params* params) {
    return Writer(rules, vocab).write(params);
}

}  // namespace foresay::server
