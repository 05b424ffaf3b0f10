#include "server/api/embeddings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/fields.h"
#include "server/api/parse_prompt.h"

namespace foresay::server {
namespace {

/// {"content":[{"type":"text","text":S}]}: the text of its parts.
Result<JsonIn> text_of_parts(const JsonIn& parts, const std::string& field) {
    std::string text;
    for (const JsonIn& part : parts) {
        if (!part.is_object() || part.value("type", JsonIn()) != "text" || !part.contains("text") ||
            !part["text"].is_string()) {
            return error(Code::kInvalidArgument,
                         fmt::format("Field '{}': only parts of type text are supported", field));
        }
        text += part["text"].get_ref<const std::string&>();
    }
    return JsonIn(std::move(text));
}

/// Objects of the content form become strings; all else is parse_prompts' to judge.
Result<JsonIn> plain_input(const JsonIn& input, const std::string& field) {
    const auto one = [&](const JsonIn& value) -> Result<JsonIn> {
        if (value.is_object() && value.contains("content") && value["content"].is_array()) {
            return text_of_parts(value["content"], field);
        }
        return value;
    };
    if (!input.is_array()) {
        return one(input);
    }
    JsonIn list = JsonIn::array();
    for (const JsonIn& element : input) {
        FORESAY_TRY(JsonIn plain, one(element));
        list.push_back(std::move(plain));
    }
    return list;
}

}  // namespace

Result<EmbeddingRequest> parse_embedding(std::string_view body, bool is_openai, engine::Pooling pooling,
                                         const ParseContext& context) {
    JsonIn object;
    FORESAY_CHECK_OK(parse_object(body, &object));
    Fields fields(object);
    EmbeddingRequest request;
    request.is_openai = is_openai;
    std::string format = "float";
    fields.text({"encoding_format"}, &format);
    if (format != "float" && format != "base64") {
        fields.fail("encoding_format", "must be \"float\" or \"base64\"");
    }
    request.is_base64 = format == "base64";
    fields.text({"model"}, &request.model);
    if (!is_openai) {
        request.normalize = context.embd_normalize;
        fields.integer({"embd_normalize"}, -1, std::numeric_limits<int32_t>::max(), &request.normalize);
    }
    std::string spelt;
    const JsonIn* input = is_openai ? fields.find({"input"}, &spelt) : fields.find({"input", "content"}, &spelt);
    if (input == nullptr && !fields.failed()) {
        return error(Code::kInvalidArgument,
                     is_openai ? "key 'input' not found" : "key 'content' or 'input' not found");
    }
    FORESAY_CHECK_OK(fields.status());
    if (is_openai && pooling == engine::Pooling::kNone) {
        return error(Code::kInvalidArgument,
                     "Pooling type 'none' is not OAI compatible. Please use a different pooling type");
    }
    FORESAY_TRY(const JsonIn plain, plain_input(*input, spelt));
    auto prompts = parse_prompts(plain, *context.vocab, context.max_prompts);
    if (!prompts) {
        return error(Code::kInvalidArgument, fmt::format("Field '{}': {}", spelt, prompts.error().message));
    }
    for (const auto& prompt : *prompts) {
        if (prompt.empty()) {
            return error(Code::kInvalidArgument, fmt::format("Field '{}': the input is empty", spelt));
        }
    }
    request.prompts = std::move(*prompts);
    return request;
}

void normalize_embedding(std::span<float> values, int32_t how) {
    double norm = 0.0;
    switch (how) {
        case -1:
            return;
        case 0:
            for (const float value : values) {
                norm = std::max(norm, std::abs(static_cast<double>(value)));
            }
            norm /= 32760.0;
            break;
        case 2:
            for (const float value : values) {
                norm += static_cast<double>(value) * static_cast<double>(value);
            }
            norm = std::sqrt(norm);
            break;
        default:
            for (const float value : values) {
                norm += std::pow(std::abs(static_cast<double>(value)), how);
            }
            norm = std::pow(norm, 1.0 / how);
            break;
    }
    const double scale = norm > 0.0 ? 1.0 / norm : 0.0;
    for (float& value : values) {
        value = static_cast<float>(value * scale);
    }
}

std::string base64_floats(std::span<const float> values) {
    static constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const auto byte = [&](size_t i) -> uint32_t {
        uint32_t bits = 0;
        std::memcpy(&bits, &values[i / 4], sizeof(bits));
        return (bits >> (8 * (i % 4))) & 0xFFU;
    };
    std::string out;
    const size_t n = values.size() * 4;
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t three = byte(i) << 16 | (i + 1 < n ? byte(i + 1) << 8 : 0) | (i + 2 < n ? byte(i + 2) : 0);
        out += kLetters[three >> 18];
        out += kLetters[three >> 12 & 63U];
        out += i + 1 < n ? kLetters[three >> 6 & 63U] : '=';
        out += i + 2 < n ? kLetters[three & 63U] : '=';
    }
    return out;
}

Json format_embeddings(const EmbeddingRequest& request, const std::vector<std::vector<float>>& embeddings,
                       int32_t n_embd, engine::Pooling pooling) {
    const auto shown = [&](std::span<const float> row) {
        return request.is_base64 ? Json(base64_floats(row)) : Json(std::vector<float>(row.begin(), row.end()));
    };
    Json list = Json::array();
    int64_t n_tokens = 0;
    for (size_t i = 0; i < embeddings.size(); ++i) {
        n_tokens += static_cast<int64_t>(request.prompts[i].size());
        std::vector<float> values = embeddings[i];
        Json rows = Json::array();
        for (size_t at = 0; at < values.size(); at += static_cast<size_t>(n_embd)) {
            const std::span<float> row = std::span(values).subspan(at, static_cast<size_t>(n_embd));
            if (pooling != engine::Pooling::kNone) {
                normalize_embedding(row, request.normalize);
            }
            rows.push_back(shown(row));
        }
        if (request.is_openai) {
            list.push_back({{"embedding", rows.at(0)}, {"index", i}, {"object", "embedding"}});
        } else {
            list.push_back({{"index", i}, {"embedding", std::move(rows)}});
        }
    }
    if (!request.is_openai) {
        return list;
    }
    return {{"model", request.model},
            {"object", "list"},
            {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}},
            {"data", std::move(list)}};
}

}  // namespace foresay::server
