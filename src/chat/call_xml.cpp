// The inside of calls that write every argument between marks: made into JSON as it comes.
#include <fmt/format.h>

#include "chat/calls.h"
#include "chat/json_scan.h"

namespace foresay::chat {
namespace {

class XmlBody final : public BodyReader {
  public:
    explicit XmlBody(const CallSyntax& syntax) : syntax_(syntax) {}

    bool has_begun() const override { return at_ != At::kName; }

    State step(Input* input, Sink* sink) override {
        while (true) {
            State state = State::kMore;
            const At before = at_;
            const size_t pos = input->pos;
            switch (at_) {
                case At::kName:
                    state = name(input, sink);
                    break;
                case At::kBetween:
                    state = between(input, sink);
                    break;
                case At::kKey:
                    state = key(input, sink);
                    break;
                case At::kValue:
                    state = value(input, sink);
                    break;
            }
            if (state != State::kMore || (at_ == before && input->pos == pos)) {
                return state;
            }
        }
    }

  private:
    enum class At { kName, kBetween, kKey, kValue };
    static constexpr size_t kLongestName = 256;

    State name(Input* input, Sink* sink) {
        const size_t blanks = skip_blanks(input->rest());
        const std::string_view rest = input->rest().substr(blanks);
        const Found found = syntax_.name_close.empty() ? find_marks(rest, {"<", "\n"}, input->is_end)
                                                       : find_marks(rest, {syntax_.name_close}, input->is_end);
        if (const Match end = ends_within(found, kLongestName); end != Match::kYes) {
            return end == Match::kNo ? State::kBad : State::kMore;
        }
        std::string_view name = rest.substr(0, found.pos);
        while (!name.empty() && name.back() == ' ') {
            name.remove_suffix(1);
        }
        if (name.empty() || name.find_first_of(" \n<{\"") != std::string_view::npos) {
            return State::kBad;
        }
        name_ = std::string(name);
        input->pos += blanks + found.pos + syntax_.name_close.size();
        sink->call(name_, "");
        sink->arguments("{");
        at_ = At::kBetween;
        return State::kMore;
    }

    /// Before an argument or the end.
    State between(Input* input, Sink* sink) {
        const size_t blanks = skip_blanks(input->rest());
        const std::string_view rest = input->rest().substr(blanks);
        if (rest.empty()) {
            return State::kMore;
        }
        const Match open = begins_with(rest, syntax_.argument_open, input->is_end);
        if (open == Match::kYes) {
            input->pos += blanks + syntax_.argument_open.size();
            at_ = At::kKey;
            return State::kMore;
        }
        const Match close = begins_with(rest, syntax_.close, input->is_end);
        if (close == Match::kMaybe || open == Match::kMaybe) {
            return State::kMore;
        }
        // The closing mark is the reader's; anything else ends the call too.
        sink->arguments("}");
        return State::kDone;
    }

    State key(Input* input, Sink* sink) {
        const std::string_view rest = input->rest();
        const Found found = find_marks(rest, {syntax_.argument_name_close}, input->is_end);
        if (const Match ended = ends_within(found, kLongestName); ended != Match::kYes) {
            return ended == Match::kNo ? close_badly(sink) : State::kMore;
        }
        size_t end = found.pos + syntax_.argument_name_close.size();
        std::string_view attributes;
        if (!syntax_.argument_tag_close.empty()) {
            const Found tag_end = find_marks(rest.substr(end), {syntax_.argument_tag_close}, input->is_end);
            if (const Match ended = ends_within(tag_end, kLongestName); ended != Match::kYes) {
                return ended == Match::kNo ? close_badly(sink) : State::kMore;
            }
            attributes = rest.substr(end, tag_end.pos);
            end += tag_end.pos + syntax_.argument_tag_close.size();
        }
        if (!syntax_.value_open.empty()) {
            const size_t blanks = skip_blanks(rest.substr(end));
            const Match open = begins_with(rest.substr(end + blanks), syntax_.value_open, input->is_end);
            if (open == Match::kMaybe) {
                return State::kMore;
            }
            if (open == Match::kNo) {
                return close_badly(sink);
            }
            end += blanks + syntax_.value_open.size();
        }
        const std::string key(rest.substr(0, found.pos));
        const std::string type = sink->argument_type(name_, key);
        is_text_ = attributes.find("string=\"true\"") != std::string_view::npos ||
                   (type == "string" && attributes.find("string=\"false\"") == std::string_view::npos);
        input->pos += end;
        sink->arguments(
            fmt::format("{}{}: {}", n_arguments_++ > 0 ? ", " : "", json_quoted(key), is_text_ ? "\"" : ""));
        at_ = At::kValue;
        is_first_ = true;
        value_.clear();
        return State::kMore;
    }

    State close_badly(Sink* sink) {
        sink->arguments("}");
        return State::kBad;
    }

    State value(Input* input, Sink* sink) {
        if (is_first_) {
            // "<parameter=x>\nvalue\n</parameter>": these newlines aren't of the value.
            if (input->rest().empty()) {
                return State::kMore;
            }
            has_newline_ = input->rest()[0] == '\n';
            input->pos += has_newline_ ? 1 : 0;
            is_first_ = false;
        }
        const std::string_view rest = input->rest();
        const Found found = find_marks(rest, {syntax_.argument_close}, input->is_end);
        const bool is_last = found.mark == 0;
        std::string_view text = rest.substr(0, found.pos);
        if (has_newline_ && !text.empty() && text.back() == '\n') {
            text.remove_suffix(1);
            if (!is_last) {
                // It may be the newline before the closing mark: wait.
                take(text, sink);
                input->pos += text.size();
                return State::kMore;
            }
        }
        take(text, sink);
        input->pos += found.pos;
        if (!is_last) {
            return State::kMore;
        }
        input->pos += syntax_.argument_close.size();
        if (is_text_) {
            sink->arguments("\"");
        } else {
            const Json parsed = Json::parse(value_, nullptr, false);
            // Without a schema a value that reads as JSON is JSON, and any other is a string.
            sink->arguments(parsed.is_discarded() ? json_quoted(value_) : value_);
        }
        at_ = At::kBetween;
        return State::kMore;
    }

    void take(std::string_view text, Sink* sink) {
        if (!is_text_) {
            value_.append(text);
        } else if (!text.empty()) {
            const std::string json = json_quoted(text);
            sink->arguments(std::string_view(json).substr(1, json.size() - 2));
        }
    }

    const CallSyntax& syntax_;
    At at_ = At::kName;
    std::string name_;
    size_t n_arguments_ = 0;
    bool is_text_ = false;      ///< the argument is a string: it streams
    bool is_first_ = false;     ///< nothing of the value was read
    bool has_newline_ = false;  ///< the value stands on lines of its own
    std::string value_;
};

}  // namespace

std::unique_ptr<BodyReader> make_xml_body(const CallSyntax& syntax) {
    return std::make_unique<XmlBody>(syntax);
}

}  // namespace foresay::chat
