// The replies of gpt-oss: messages with a head (channel, recipient) and a body.
//   <|channel|>analysis<|message|>thoughts<|end|><|start|>assistant<|channel|>final<|message|>answer
//   <|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{...}<|call|>
#include <algorithm>
#include <cctype>

#include "chat/calls.h"

namespace foresay::chat {
namespace {

class HarmonyReader final : public CallReader {
  public:
    explicit HarmonyReader(bool parse_calls) : parse_calls_(parse_calls) {}

    bool step(Input* input, Sink* sink) override { return in_body_ ? body(input, sink) : head(input, sink); }

  private:
    enum class Kind { kThoughts, kContent, kCall };

    bool head(Input* input, Sink* sink) {
        const std::string_view rest = input->rest();
        if (rest.empty()) {
            return false;
        }
        // A reply without any head is an answer as it stands.
        Match looks = Match::kNo;
        for (const std::string_view start : {"<|", " to=", "assistant", "to="}) {
            const Match match = begins_with(rest, start, input->is_end);
            looks = match == Match::kYes || looks == Match::kNo ? match : looks;
            if (looks == Match::kYes) {
                break;
            }
        }
        if (looks == Match::kMaybe) {
            return false;
        }
        if (looks == Match::kNo) {
            kind_ = Kind::kContent;
            in_body_ = true;
            return true;
        }
        constexpr std::string_view kMessage = "<|message|>";
        const Found found = find_marks(rest, {kMessage}, input->is_end);
        constexpr size_t kLongestHead = 400;
        const Match ended = ends_within(found, kLongestHead);
        if (ended == Match::kNo) {
            // Not a head, then: content. Its first character goes now, or the body would take the mark that it opens
            // for the next head, and this for the same body again.
            kind_ = Kind::kContent;
            in_body_ = true;
            sink->content(rest.substr(0, 1));
            ++input->pos;
            return true;
        }
        if (ended == Match::kMaybe) {
            if (input->is_end) {
                input->pos = input->text.size();  // a head without a message says nothing
            }
            return false;
        }
        begin(rest.substr(0, found.pos), sink);
        input->pos += found.pos + kMessage.size();
        input->drop_read();
        in_body_ = true;
        return true;
    }

    void begin(std::string_view head, Sink* sink) {
        const auto word_behind = [&](std::string_view mark) {
            const size_t at = head.find(mark);
            if (at == std::string_view::npos) {
                return std::string_view();
            }
            const std::string_view text = head.substr(at + mark.size());
            return text.substr(0, std::min(text.find_first_of(" <\n"), text.size()));
        };
        const std::string_view channel = word_behind("<|channel|>");
        std::string_view recipient = word_behind("to=");
        kind_ = channel == "analysis" ? Kind::kThoughts : Kind::kContent;
        if (!recipient.empty() && recipient != "user" && parse_calls_) {
            constexpr std::string_view kFunctions = "functions.";
            if (recipient.substr(0, kFunctions.size()) == kFunctions) {
                recipient.remove_prefix(kFunctions.size());
            }
            kind_ = Kind::kCall;
            sink->call(std::string(recipient), "");
        }
    }

    bool body(Input* input, Sink* sink) {
        const std::string_view rest = input->rest();
        const Found found =
            find_marks(rest, {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"}, input->is_end);
        const std::string_view text = rest.substr(0, found.pos);
        switch (kind_) {
            case Kind::kThoughts:
                sink->reasoning(text);
                break;
            case Kind::kContent:
                sink->content(text);
                break;
            case Kind::kCall:
                sink->arguments(text);
                break;
        }
        input->pos += found.pos;
        if (found.mark >= 0) {
            // The marks that open a head stay for it.
            constexpr size_t kLengths[] = {7, 8, 10, 0, 0};
            input->pos += kLengths[found.mark];
            in_body_ = false;
        }
        input->drop_read();
        return found.mark >= 0;
    }

    bool parse_calls_;
    bool in_body_ = false;
    Kind kind_ = Kind::kContent;
};

}  // namespace

std::unique_ptr<CallReader> make_harmony_reader(bool parse_calls) {
    return std::make_unique<HarmonyReader>(parse_calls);
}

}  // namespace foresay::chat
