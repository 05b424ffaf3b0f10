#include "server/api/reply_style.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace foresay::server {
namespace {

class NativeStyle final : public ReplyStyle {
  public:
    explicit NativeStyle(std::shared_ptr<const FormatContext> context) : context_(std::move(context)) {}

    std::string partial(const Partial& partial, const engine::Request& request) override {
        return sse(format_partial(partial, request.post_sampling_probs, *context_));
    }

    std::string progress(const Partial& partial, const Progress& progress) override {
        return sse(format_progress(partial, progress));
    }

    std::string final_event(const Completed& completed) override {
        Completed last = completed;
        last.content.clear();
        last.tokens.clear();
        last.probs.clear();
        return sse(format_final(last, *context_));
    }

    Json whole(const std::vector<Completed>& choices) override {
        if (choices.size() == 1) {
            return format_final(choices.front(), *context_);
        }
        Json list = Json::array();
        for (const Completed& choice : choices) {
            list.push_back(format_final(choice, *context_));
        }
        return list;
    }

  private:
    std::shared_ptr<const FormatContext> context_;
};

}  // namespace

std::string sse(const Json& event) {
    return "data: " + dump(event) + "\n\n";
}

std::string ReplyStyle::progress(const Partial& partial, const Progress& progress) {
    (void)partial, (void)progress;
    return {};
}

std::string ReplyStyle::error_event(const ApiError& error) {
    return "data: " + error_body(error) + "\n\n";
}

std::unique_ptr<ReplyStyle> make_native_style(std::shared_ptr<const FormatContext> context) {
    return std::make_unique<NativeStyle>(std::move(context));
}

}  // namespace foresay::server
