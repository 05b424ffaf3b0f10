// The insides of calls in JSON: an object or a list of them, or a name and then its arguments.
#include <algorithm>

#include "chat/calls.h"
#include "chat/json_scan.h"

namespace foresay::chat {
namespace {

bool is_known_tool(const Sink& sink, std::string_view name) {
    const Json& tools = sink.options().tools;
    return tools.is_null() || std::any_of(tools.begin(), tools.end(), [&](const Json& tool) {
               return tool.contains("function") && tool["function"].value("name", Json()) == name;
           });
}

class JsonBody final : public BodyReader {
  public:
    explicit JsonBody(const CallSyntax& syntax) : syntax_(syntax), object_(syntax) {}

    bool has_begun() const override { return has_begun_; }

    State step(Input* input, Sink* sink) override {
        while (input->pos < input->text.size()) {
            const char c = input->text[input->pos];
            const bool blank = c == ' ' || c == '\n' || c == '\r' || c == '\t';
            if (!in_object_) {
                if (blank || (is_list_ && c == ',')) {
                    ++input->pos;
                } else if (c == '[' && !is_list_ && !syntax_.is_bare) {
                    is_list_ = true;
                    ++input->pos;
                } else if (c == ']' && is_list_) {
                    ++input->pos;
                    return has_begun_ ? State::kDone : State::kBad;
                } else if (c == '{') {
                    in_object_ = true;
                    is_out_ = false;
                    object_ = CallObject(syntax_);
                } else {
                    return State::kBad;
                }
                continue;
            }
            ++input->pos;
            const CallObject::State state = object_.add(c);
            if (state == CallObject::State::kBad) {
                return State::kBad;
            }
            const bool is_done = state == CallObject::State::kDone;
            if (!pass_on(is_done, sink)) {
                return State::kBad;
            }
            if (is_done) {
                in_object_ = false;
                if (!is_list_) {
                    return State::kDone;
                }
            }
        }
        flush(sink);
        return State::kMore;
    }

  private:
    /// Hands on what is known of the object. False: this JSON isn't a call.
    bool pass_on(bool is_done, Sink* sink) {
        if (!is_out_ && object_.has_name() && (object_.has_arguments() || (is_done && !syntax_.is_bare))) {
            if (object_.name().empty() || (syntax_.is_bare && !is_known_tool(*sink, object_.name()))) {
                return false;
            }
            sink->call(object_.name(), object_.id());
            is_out_ = true;
            has_begun_ = true;
        }
        if (is_done) {
            flush(sink);
            if (is_out_ && !object_.has_arguments()) {
                sink->arguments("{}");
            }
        }
        return is_out_ || !is_done;
    }

    void flush(Sink* sink) {
        if (is_out_ && in_object_) {
            sink->arguments(object_.take_arguments());
        }
    }

    const CallSyntax& syntax_;
    CallObject object_;
    bool is_list_ = false;
    bool in_object_ = false;
    bool is_out_ = false;     ///< the present object's name
    bool has_begun_ = false;  ///< any name
};

class NamedBody final : public BodyReader {
  public:
    explicit NamedBody(const CallSyntax& syntax) : syntax_(syntax) {}

    bool has_begun() const override { return list_ != nullptr ? list_->has_begun() : has_begun_; }

    State step(Input* input, Sink* sink) override {
        if (list_ != nullptr) {
            return list_->step(input, sink);
        }
        return has_begun_ ? arguments(input, sink) : name(input, sink);
    }

  private:
    static constexpr size_t kLongestName = 256;

    State name(Input* input, Sink* sink) {
        const size_t blanks = skip_blanks(input->rest());
        const std::string_view rest = input->rest().substr(blanks);
        if (rest.empty()) {
            return State::kMore;
        }
        if (rest[0] == '[' || rest[0] == '{') {
            // Mistral's older form: a list of objects behind the same mark.
            list_ = make_json_body(syntax_);
            return list_->step(input, sink);
        }
        const Found found = find_marks(rest, {syntax_.name_close, "{"}, input->is_end);
        if (const Match end = ends_within(found, kLongestName); end != Match::kYes) {
            return end == Match::kNo ? State::kBad : State::kMore;
        }
        std::string name(rest.substr(0, found.pos));
        std::string id;
        if (const size_t at = syntax_.id_open.empty() ? std::string::npos : name.find(syntax_.id_open);
            at != std::string::npos) {
            id = name.substr(at + syntax_.id_open.size());
            name.resize(at);
        }
        while (!name.empty() && (name.back() == ' ' || name.back() == '\n')) {
            name.pop_back();
        }
        const size_t behind = found.pos + (found.mark == 0 ? syntax_.name_close.size() : 0);
        if (syntax_.opens_prompt && name == "all") {
            input->pos += blanks + behind;
            return State::kDone;
        }
        if (name.compare(0, 10, "functions.") == 0) {
            // "functions.NAME:NUMBER", which is the call's id as well
            id = name;
            name = name.substr(10, name.rfind(':') == std::string::npos ? std::string::npos : name.rfind(':') - 10);
        }
        const size_t more_blanks = skip_blanks(rest.substr(behind));
        if (behind + more_blanks >= rest.size()) {
            return State::kMore;
        }
        if (name.empty() || name.find_first_of(" \n<") != std::string::npos || rest[behind + more_blanks] != '{') {
            return State::kBad;
        }
        input->pos += blanks + behind + more_blanks;
        sink->call(std::move(name), std::move(id));
        has_begun_ = true;
        return arguments(input, sink);
    }

    State arguments(Input* input, Sink* sink) {
        const size_t start = input->pos;
        JsonScan::State state = JsonScan::State::kMore;
        while (input->pos < input->text.size() && state == JsonScan::State::kMore) {
            state = scan_.add(input->text[input->pos]);
            input->pos += state == JsonScan::State::kBad ? 0 : 1;
        }
        sink->arguments(std::string_view(input->text).substr(start, input->pos - start));
        return state == JsonScan::State::kDone  ? State::kDone
               : state == JsonScan::State::kBad ? State::kBad
                                                : State::kMore;
    }

    const CallSyntax& syntax_;
    JsonScan scan_;
    bool has_begun_ = false;
    std::unique_ptr<BodyReader> list_;
};

}  // namespace

std::unique_ptr<BodyReader> make_json_body(const CallSyntax& syntax) {
    return std::make_unique<JsonBody>(syntax);
}

std::unique_ptr<BodyReader> make_named_body(const CallSyntax& syntax) {
    return std::make_unique<NamedBody>(syntax);
}

}  // namespace foresay::chat
