#include "chat/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/text.h"

namespace foresay::chat {
namespace {

bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/// Letters and digits; 32 of them where a model doesn't want another length.
std::string random_id(int length) {
    static constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    thread_local std::mt19937_64 random{std::random_device{}()};
    std::uniform_int_distribution<size_t> any(0, kCharacters.size() - 1);
    std::string id;
    for (int i = 0; i < (length > 0 ? length : 32); ++i) {
        id += kCharacters[any(random)];
    }
    return id;
}

/// Content, and calls between marks.
class MarkedReader final : public CallReader {
  public:
    explicit MarkedReader(const CallSyntax& syntax) : syntax_(syntax) {}

    bool step(Input* input, Sink* sink) override {
        switch (at_) {
            case At::kStart:
                return start(input);
            case At::kContent:
                return content(input, sink);
            case At::kSection:
                return section(input, sink);
            case At::kBody:
                return body(input, sink);
            case At::kAfter:
                return after(input);
        }
        return false;
    }

  private:
    enum class At { kStart, kContent, kSection, kBody, kAfter };

    bool start(Input* input) {
        if (syntax_.opens_prompt) {
            begin_body(input->pos);
            return true;
        }
        if (!syntax_.is_bare) {
            at_ = At::kContent;
            return true;
        }
        const size_t blanks = skip_blanks(input->rest());
        if (blanks == input->rest().size()) {
            at_ = input->is_end ? At::kContent : At::kStart;
            return input->is_end;
        }
        if (input->rest()[blanks] == '{') {
            begin_body(input->pos);
            input->pos += blanks;
        } else {
            at_ = At::kContent;
        }
        return true;
    }

    void begin_body(size_t start) {
        start_ = start;
        at_ = At::kBody;
        body_ = syntax_.form == CallForm::kXml         ? make_xml_body(syntax_)
                : syntax_.form == CallForm::kNamedJson ? make_named_body(syntax_)
                                                       : make_json_body(syntax_);
    }

    bool content(Input* input, Sink* sink) {
        const bool open_counts = syntax_.section_open.empty() || syntax_.opens_alone;
        const std::string_view open = open_counts ? syntax_.open : std::string_view();
        const std::string_view rest = input->rest();
        const Found found = find_marks(rest, {syntax_.section_open, open}, input->is_end);
        // Blanks wait: before a call they are dropped, and so are those behind one.
        std::string_view text = rest.substr(0, found.pos);
        if (is_behind_call_) {
            text.remove_prefix(skip_blanks(text));
            is_behind_call_ = text.empty();
        }
        size_t kept = text.size();
        while (kept > 0 && is_blank(text[kept - 1])) {
            --kept;
        }
        if (kept > 0) {
            sink->content(held_);
            sink->content(text.substr(0, kept));
            held_.clear();
        }
        held_.append(text.substr(kept));
        input->pos += found.pos;
        if (found.mark < 0) {
            input->drop_read();
            if (input->is_end) {
                sink->content(held_);
                held_.clear();
            }
            return false;
        }
        const size_t start = input->pos;
        input->pos += found.mark == 0 ? syntax_.section_open.size() : syntax_.open.size();
        if (found.mark == 0) {
            start_ = start;
            has_call_ = false;
            in_section_ = true;
            at_ = At::kSection;
        } else {
            // A section whose opening mark was left out may still be closed.
            in_section_ = syntax_.opens_alone;
            has_call_ = false;
            begin_body(start);
        }
        return true;
    }

    /// Text that began like a call and isn't one.
    bool give_up(Input* input, Sink* sink) {
        sink->content(held_);
        held_.clear();
        sink->content(std::string_view(input->text).substr(start_, input->pos - start_));
        at_ = At::kContent;
        input->drop_read();
        return true;
    }

    bool section(Input* input, Sink* sink) {
        const size_t blanks = skip_blanks(input->rest());
        const std::string_view rest = input->rest().substr(blanks);
        const Match close = begins_with(rest, syntax_.section_close, input->is_end);
        const Match open = begins_with(rest, syntax_.open, input->is_end);
        if (close == Match::kYes && has_call_) {
            input->pos += blanks + syntax_.section_close.size();
            leave_call(input);
            return true;
        }
        if (open == Match::kYes) {
            const size_t start = has_call_ ? input->pos : start_;
            input->pos += blanks + syntax_.open.size();
            begin_body(start);
            return true;
        }
        if (close == Match::kMaybe || open == Match::kMaybe) {
            return false;
        }
        if (has_call_) {
            leave_call(input);
            return true;
        }
        // Some models leave the inner mark out, or write the calls of another form here: content then.
        input->pos += blanks;
        return give_up(input, sink);
    }

    void leave_call(Input* input) {
        held_.clear();
        at_ = At::kContent;
        input->drop_read();
    }

    bool body(Input* input, Sink* sink) {
        const BodyReader::State state = body_->step(input, sink);
        const bool begun = body_->has_begun();
        if (begun) {
            held_.clear();
            has_call_ = true;
            is_behind_call_ = true;
            input->drop_read();
        }
        if (state == BodyReader::State::kDone) {
            at_ = begun ? At::kAfter : At::kContent;  // not begun: functionary's ">>>all", which is content
            if (!begun) {
                held_.clear();
                input->drop_read();
            }
            return true;
        }
        if (state == BodyReader::State::kBad || input->is_end) {
            if (!begun) {
                if (state != BodyReader::State::kBad) {
                    input->pos = input->text.size();
                }
                return give_up(input, sink);
            }
            at_ = At::kContent;
            return state == BodyReader::State::kBad;
        }
        return false;
    }

    bool after(Input* input) {
        const size_t blanks = skip_blanks(input->rest());
        const std::string_view rest = input->rest().substr(blanks);
        const bool is_json = syntax_.form == CallForm::kJson;
        if (is_json && rest.empty() && !input->is_end && (syntax_.is_bare || !syntax_.close.empty())) {
            return false;
        }
        // More calls before the closing mark, or behind a semicolon.
        if (is_json && syntax_.is_bare && rest.substr(0, 1) == ";") {
            input->pos += blanks + 1;
            at_ = At::kStart;
            return true;
        }
        if (is_json && !syntax_.close.empty() && (rest.substr(0, 1) == "{" || rest.substr(0, 1) == ",")) {
            input->pos += blanks + (rest[0] == ',' ? 1 : 0);
            begin_body(input->pos);
            return true;
        }
        if (!syntax_.close.empty()) {
            const Match close = begins_with(rest, syntax_.close, input->is_end);
            if (close == Match::kMaybe) {
                return false;
            }
            if (close == Match::kYes) {
                input->pos += blanks + syntax_.close.size();
            }
        }
        input->drop_read();
        at_ = in_section_ ? At::kSection : At::kContent;
        return true;
    }

    const CallSyntax& syntax_;
    At at_ = At::kStart;
    std::string held_;  ///< blanks behind content
    size_t start_ = 0;  ///< of the marks of a call that hasn't begun
    bool in_section_ = false;
    bool has_call_ = false;  ///< in this section
    bool is_behind_call_ = false;
    std::unique_ptr<BodyReader> body_;
};

}  // namespace

Match begins_with(std::string_view text, std::string_view mark, bool is_end) {
    if (mark.empty()) {
        return Match::kYes;
    }
    const size_t n = std::min(text.size(), mark.size());
    if (text.substr(0, n) != mark.substr(0, n)) {
        return Match::kNo;
    }
    return n == mark.size() ? Match::kYes : is_end ? Match::kNo : Match::kMaybe;
}

Found find_marks(std::string_view text, std::initializer_list<std::string_view> marks, bool is_end) {
    Found first{text.size(), -1};
    int i = 0;
    for (const std::string_view mark : marks) {
        const int index = i++;
        if (mark.empty()) {
            continue;
        }
        const size_t at = text.find(mark);
        if (at < first.pos || (at == first.pos && first.mark < 0 && at != text.size())) {
            first = {at, index};
            continue;
        }
        if (at != std::string_view::npos || is_end) {
            continue;
        }
        // The longest tail that may still become the mark.
        const size_t begun = text.size() - begun_at_end(text, mark);
        if (begun < first.pos) {
            first = {begun, -1};
        }
    }
    return first;
}

Match ends_within(const Found& found, size_t most) {
    return found.pos > most ? Match::kNo : found.mark < 0 ? Match::kMaybe : Match::kYes;
}

size_t skip_blanks(std::string_view text) {
    size_t n = 0;
    while (n < text.size() && is_blank(text[n])) {
        ++n;
    }
    return n;
}

void Sink::content(std::string_view text) {
    if (!text.empty()) {
        Delta delta;
        delta.kind = Delta::Kind::kContent;
        delta.text = std::string(text);
        emit_(std::move(delta));
    }
}

void Sink::reasoning(std::string_view text) {
    if (!text.empty()) {
        Delta delta;
        delta.kind = Delta::Kind::kReasoning;
        delta.text = std::string(text);
        emit_(std::move(delta));
    }
}

void Sink::call(std::string name, std::string id) {
    Delta delta;
    delta.kind = Delta::Kind::kCall;
    delta.index = n_calls_++;
    delta.name = std::move(name);
    const CallSyntax* syntax = options_.syntax.calls;
    delta.id = !id.empty()                   ? std::move(id)
               : !options_.id_prefix.empty() ? fmt::format("{}{}", options_.id_prefix, delta.index)
                                             : random_id(syntax != nullptr ? syntax->id_length : 0);
    emit_(std::move(delta));
}

void Sink::arguments(std::string_view text) {
    if (!text.empty()) {
        Delta delta;
        delta.kind = Delta::Kind::kArguments;
        delta.index = n_calls_ - 1;
        delta.text = std::string(text);
        emit_(std::move(delta));
    }
}

std::string Sink::argument_type(std::string_view tool, std::string_view argument) const {
    for (const Json& candidate : options_.tools) {
        const Json& function = candidate.contains("function") ? candidate["function"] : candidate;
        if (!function.is_object() || function.value("name", Json()) != tool || !function.contains("parameters") ||
            !function["parameters"].is_object() || !function["parameters"].contains("properties")) {
            continue;
        }
        const Json& properties = function["parameters"]["properties"];
        const std::string key(argument);
        if (!properties.is_object() || !properties.contains(key) || !properties[key].is_object()) {
            return {};
        }
        const Json type = properties[key].value("type", Json());
        if (type.is_string()) {
            return type.get<std::string>();
        }
        const bool text =
            type.is_array() && std::any_of(type.begin(), type.end(), [](const Json& t) { return t == "string"; });
        return text ? "string" : "";
    }
    return {};
}

std::unique_ptr<CallReader> make_marked_reader(const CallSyntax& syntax) {
    return std::make_unique<MarkedReader>(syntax);
}

}  // namespace foresay::chat
