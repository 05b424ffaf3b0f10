#include "chat/output.h"

#include <utility>

#include "chat/calls.h"

namespace foresay::chat {
namespace {

/// Content and nothing else.
class PlainReader final : public CallReader {
  public:
    bool step(Input* input, Sink* sink) override {
        sink->content(input->rest());
        input->pos = input->text.size();
        input->drop_read();
        return false;
    }
};

std::unique_ptr<CallReader> make_reader(const OutputOptions& options) {
    const CallSyntax* calls = options.syntax.calls;
    if (calls != nullptr && calls->form == CallForm::kHarmony) {
        return make_harmony_reader(options.parse_calls);
    }
    if (calls == nullptr || !options.parse_calls) {
        return std::make_unique<PlainReader>();
    }
    return make_marked_reader(*calls);
}

}  // namespace

void Message::add(const Delta& delta) {
    switch (delta.kind) {
        case Delta::Kind::kReasoning:
            reasoning += delta.text;
            break;
        case Delta::Kind::kContent:
            content += delta.text;
            break;
        case Delta::Kind::kCall:
            calls.push_back({delta.id, delta.name, ""});
            break;
        case Delta::Kind::kArguments:
            calls.at(delta.index).arguments += delta.text;
            break;
    }
}

Json Message::to_json() const {
    Json out = Json{{"role", "assistant"}};
    out["content"] = content.empty() && !calls.empty() ? Json() : Json(content);
    if (!reasoning.empty()) {
        out["reasoning_content"] = reasoning;
    }
    for (const Call& call : calls) {
        out["tool_calls"].push_back(Json{
            {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}, {"id", call.id}});
    }
    return out;
}

struct OutputParser::Impl {
    enum class At { kStart, kThinking, kBehind, kRest };

    explicit Impl(OutputOptions given)
        : options(std::move(given)),
          sink([this](Delta delta) { emit(std::move(delta)); }, options),
          reader(make_reader(options)) {
        const bool harmony = options.syntax.calls != nullptr && options.syntax.calls->form == CallForm::kHarmony;
        at = options.syntax.think == nullptr || harmony ? At::kRest
             : options.starts_in_reasoning              ? At::kThinking
                                                        : At::kStart;
    }

    void emit(Delta delta) {
        if (delta.kind == Delta::Kind::kReasoning) {
            // Only a reader of whole channels gets here with a format that keeps thoughts in the content.
            const bool also = options.reasoning_format == ReasoningFormat::kDeepseekLegacy;
            if (options.reasoning_format == ReasoningFormat::kNone || also) {
                Delta content = delta;
                content.kind = Delta::Kind::kContent;
                keep(std::move(content));
                if (!also) {
                    return;
                }
            }
        }
        keep(std::move(delta));
    }

    void keep(Delta delta) {
        message.add(delta);
        // Neighbours of one kind are one piece.
        if (!out.empty() && out.back().kind == delta.kind && delta.kind != Delta::Kind::kCall &&
            out.back().index == delta.index) {
            out.back().text += delta.text;
            return;
        }
        out.push_back(std::move(delta));
    }

    bool keeps_tags() const {
        return options.reasoning_format == ReasoningFormat::kNone ||
               options.reasoning_format == ReasoningFormat::kDeepseekLegacy;
    }

    /// Thoughts as they stand, where the content keeps them.
    void verbatim(std::string_view text) {
        if (keeps_tags() && !text.empty()) {
            Delta delta;
            delta.text = std::string(text);
            keep(std::move(delta));
        }
    }

    void thoughts(std::string_view text) {
        if (options.reasoning_format == ReasoningFormat::kNone || text.empty()) {
            return;
        }
        Delta delta;
        delta.kind = Delta::Kind::kReasoning;
        delta.text = std::string(text);
        keep(std::move(delta));
    }

    bool start() {
        const std::string_view rest = input.rest();
        const size_t blanks = skip_blanks(rest);
        const Match open = begins_with(rest.substr(blanks), options.syntax.think->open, input.is_end);
        if (open == Match::kMaybe) {
            return false;
        }
        if (open == Match::kNo) {
            at = At::kRest;
            return true;
        }
        const size_t n = blanks + options.syntax.think->open.size();
        verbatim(rest.substr(0, n));
        input.pos += n;
        input.drop_read();
        at = At::kThinking;
        return true;
    }

    bool thinking() {
        const std::string_view rest = input.rest();
        const Found found = find_marks(rest, {options.syntax.think->close}, input.is_end);
        const std::string_view text = rest.substr(0, found.pos);
        verbatim(text);
        // Blanks at the ends aren't thoughts: those that may be the last ones wait.
        const size_t lead = is_thinking ? 0 : skip_blanks(text);
        size_t end = text.size();
        while (end > lead && skip_blanks(text.substr(end - 1, 1)) == 1) {
            --end;
        }
        if (end > lead) {
            thoughts(held);
            thoughts(text.substr(lead, end - lead));
            held.clear();
            is_thinking = true;
        }
        held.append(is_thinking ? text.substr(std::max(end, lead)) : "");
        input.pos += found.pos;
        if (found.mark == 0) {
            verbatim(options.syntax.think->close);
            input.pos += options.syntax.think->close.size();
            at = keeps_tags() ? At::kRest : At::kBehind;
        }
        input.drop_read();
        return found.mark == 0;
    }

    /// Blanks between thoughts and answer belong to neither.
    bool behind() {
        const size_t blanks = skip_blanks(input.rest());
        input.pos += blanks;
        input.drop_read();
        if (input.text.empty()) {
            return false;
        }
        at = At::kRest;
        return true;
    }

    std::vector<Delta> run() {
        bool goes_on = true;
        while (goes_on) {
            switch (at) {
                case At::kStart:
                    goes_on = start();
                    break;
                case At::kThinking:
                    goes_on = thinking();
                    break;
                case At::kBehind:
                    goes_on = behind();
                    break;
                case At::kRest:
                    goes_on = reader->step(&input, &sink);
                    break;
            }
        }
        return std::exchange(out, {});
    }

    OutputOptions options;
    Sink sink;
    std::unique_ptr<CallReader> reader;
    Input input;
    At at = At::kRest;
    bool is_thinking = false;  ///< something but blanks was thought
    std::string held;          ///< blanks behind thoughts
    Message message;
    std::vector<Delta> out;
};

OutputParser::OutputParser(OutputOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;
OutputParser::~OutputParser() = default;

std::vector<Delta> OutputParser::push(std::string_view text) {
    impl_->input.text.append(text);
    return impl_->run();
}

std::vector<Delta> OutputParser::finish() {
    impl_->input.is_end = true;
    return impl_->run();
}

const Message& OutputParser::message() const {
    return impl_->message;
}

Message parse_output(std::string_view text, OutputOptions options) {
    OutputParser parser(std::move(options));
    parser.push(text);
    parser.finish();
    return parser.message();
}

}  // namespace foresay::chat
