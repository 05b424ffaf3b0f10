#include "server/api/parse_completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/fields.h"
#include "server/api/parse_grammar.h"
#include "server/api/parse_prompt.h"

namespace foresay::server {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
constexpr double kMaxFloat = std::numeric_limits<float>::max();
constexpr uint32_t kRandomSeed = std::numeric_limits<uint32_t>::max();

Error not_yet(const std::string& field) {
    return error(Code::kUnsupported, fmt::format("Field '{}': not supported yet by this version of Foresay", field));
}

bool is_list_of_strings(const JsonIn& value) {
    return value.is_array() && std::all_of(value.begin(), value.end(), [](const JsonIn& v) { return v.is_string(); });
}

void parse_stop(Fields& fields, engine::Request* request) {
    std::string spelt;
    const JsonIn* value = fields.find({"stop"}, &spelt);
    if (value == nullptr || (value->is_primitive() && !value->is_string())) {
        return;  // a scalar that isn't a string is ignored, as the peer does
    }
    std::vector<std::string> words;
    if (value->is_string()) {
        words.push_back(value->get<std::string>());
    } else if (is_list_of_strings(*value)) {
        words = value->get<std::vector<std::string>>();
    } else {
        fields.fail(spelt, "must be a string or a list of strings");
        return;
    }
    // An empty stop string would match at once; without any other the server's own list holds.
    words.erase(std::remove(words.begin(), words.end(), std::string()), words.end());
    if (!words.empty()) {
        request->stop = std::move(words);
    }
}

std::string_view sampler_of_letter(char letter) {
    constexpr std::array<std::pair<char, std::string_view>, 11> kLetters{{{'e', "penalties"},
                                                                          {'d', "dry"},
                                                                          {'s', "top_n_sigma"},
                                                                          {'k', "top_k"},
                                                                          {'y', "typ_p"},
                                                                          {'p', "top_p"},
                                                                          {'m', "min_p"},
                                                                          {'x', "xtc"},
                                                                          {'t', "temperature"},
                                                                          {'i', "infill"},
                                                                          {'a', "adaptive_p"}}};
    for (const auto& [key, name] : kLetters) {
        if (key == letter) {
            return name;
        }
    }
    return {};
}

void parse_samplers(Fields& fields, sampling::Params* params) {
    std::string spelt;
    const JsonIn* value = fields.find({"samplers"}, &spelt);
    if (value == nullptr) {
        return;
    }
    std::vector<std::string> names;
    if (value->is_string()) {
        for (const char letter : value->get_ref<const std::string&>()) {
            const std::string_view name = sampler_of_letter(letter);
            if (name.empty()) {
                fields.fail(spelt, fmt::format("unknown sampler letter '{}'", letter));
                return;
            }
            names.emplace_back(name);
        }
    } else if (is_list_of_strings(*value)) {
        for (const JsonIn& element : *value) {
            const auto& given = element.get_ref<const std::string&>();
            const std::string_view name = sampling::canonical_sampler_name(given);
            if (name.empty()) {
                fields.fail(spelt, fmt::format("unknown sampler '{}'", given.substr(0, 64)));
                return;
            }
            names.emplace_back(name);
        }
    } else {
        fields.fail(spelt, "must be a list of sampler names or a string of sampler letters");
        return;
    }
    params->samplers = std::move(names);
}

/// Adds one bias; `key` is an id, or a text of which every token is biased. What is malformed is dropped, as the peer
/// does.
void add_bias(const JsonIn& key, const JsonIn& bias, const vocab::Vocab& vocab, sampling::Params* params) {
    float value = 0.0F;
    if (bias.is_number()) {
        value = static_cast<float>(std::clamp(bias.get<double>(), -kMaxFloat, kMaxFloat));
    } else if (bias.is_boolean() && !bias.get<bool>()) {
        value = -std::numeric_limits<float>::infinity();
    } else {
        return;
    }
    if (key.is_number_integer()) {
        const auto id = key.get<int64_t>();
        if (id >= 0 && id < vocab.n_tokens()) {
            params->logit_bias.emplace_back(static_cast<vocab::TokenId>(id), value);
        }
    } else if (key.is_string()) {
        for (const vocab::TokenId id : vocab.encode(key.get_ref<const std::string&>(), false, false)) {
            params->logit_bias.emplace_back(id, value);
        }
    }
}

void parse_logit_bias(Fields& fields, const vocab::Vocab& vocab, sampling::Params* params) {
    std::string spelt;
    const JsonIn* value = fields.find({"logit_bias"}, &spelt);
    if (value == nullptr) {
        return;
    }
    if (!value->is_array() && !value->is_object()) {
        fields.fail(spelt, fmt::format("type must be array or object, but is {}", value->type_name()));
        return;
    }
    params->logit_bias.clear();
    if (value->is_array()) {
        for (const JsonIn& pair : *value) {
            if (pair.is_array() && pair.size() == 2) {
                add_bias(pair[0], pair[1], vocab, params);
            }
        }
        return;
    }
    for (auto it = value->begin(); it != value->end(); ++it) {
        const std::string& key = it.key();
        int32_t id = 0;
        const auto [end, ec] = std::from_chars(key.data(), key.data() + key.size(), id);
        const bool is_id = ec == std::errc() && end == key.data() + key.size();
        add_bias(is_id ? JsonIn(id) : JsonIn(key), it.value(), vocab, params);
    }
}

void parse_breakers(Fields& fields, sampling::Params* params) {
    std::string spelt;
    const JsonIn* value = fields.find({"dry_sequence_breakers"}, &spelt);
    if (value == nullptr) {
        return;
    }
    if (!is_list_of_strings(*value) || value->empty()) {
        fields.fail(spelt, "must be a non-empty list of strings");
        return;
    }
    params->dry_sequence_breakers = value->get<std::vector<std::string>>();
}

void parse_sampling(Fields& f, const vocab::Vocab& vocab, sampling::Params* p) {
    int64_t seed = p->seed;
    f.integer64({"seed"}, std::numeric_limits<int32_t>::min(), std::numeric_limits<uint32_t>::max(), &seed);
    p->seed = static_cast<uint32_t>(seed);  // -1 and 4294967295 are the same: random
    f.integer({"min_keep"}, 0, kMaxInt, &p->min_keep);
    f.clamped_number({"temperature"}, 0.0, kMaxFloat, &p->temperature);
    f.number({"dynatemp_range"}, -kMaxFloat, kMaxFloat, &p->dynatemp_range);
    f.number({"dynatemp_exponent"}, -kMaxFloat, kMaxFloat, &p->dynatemp_exponent);
    f.clamped_integer({"top_k"}, 0, kMaxInt, &p->top_k);
    f.clamped_number({"top_p"}, 0.0, 1.0, &p->top_p);
    f.clamped_number({"min_p"}, 0.0, 1.0, &p->min_p);
    f.number({"top_n_sigma"}, -kMaxFloat, kMaxFloat, &p->top_n_sigma);
    f.number({"typical_p"}, -kMaxFloat, kMaxFloat, &p->typical_p);
    f.clamped_number({"xtc_probability"}, 0.0, 1.0, &p->xtc_probability);
    f.clamped_number({"xtc_threshold"}, 0.0, 1.0, &p->xtc_threshold);
    f.integer({"repeat_last_n"}, 0, kMaxInt, &p->repeat_last_n);
    f.number({"repeat_penalty"}, -kMaxFloat, kMaxFloat, &p->repeat_penalty);
    if (!f.failed() && !(p->repeat_penalty > 0.0F)) {
        f.fail(error(Code::kInvalidArgument,
                     "Failed to initialize samplers: penalty_repeat must be finite and greater than 0"));
    }
    f.number({"presence_penalty"}, -kMaxFloat, kMaxFloat, &p->presence_penalty);
    f.number({"frequency_penalty"}, -kMaxFloat, kMaxFloat, &p->frequency_penalty);
    f.number({"dry_multiplier"}, -kMaxFloat, kMaxFloat, &p->dry_multiplier);
    const float default_base = p->dry_base;
    f.number({"dry_base"}, -kMaxFloat, kMaxFloat, &p->dry_base);
    if (p->dry_base < 1.0F) {
        p->dry_base = default_base;
    }
    f.integer({"dry_allowed_length"}, 0, kMaxInt, &p->dry_allowed_length);
    f.integer({"dry_penalty_last_n"}, 0, kMaxInt, &p->dry_penalty_last_n);
    parse_breakers(f, p);
    f.clamped_integer({"mirostat"}, 0, 2, &p->mirostat);
    f.number({"mirostat_tau"}, -kMaxFloat, kMaxFloat, &p->mirostat_tau);
    f.number({"mirostat_eta"}, -kMaxFloat, kMaxFloat, &p->mirostat_eta);
    f.clamped_number({"adaptive_target"}, -kMaxFloat, 1.0, &p->adaptive_target);
    f.number({"adaptive_decay"}, 0.0, 0.99, &p->adaptive_decay);
    parse_samplers(f, p);
    parse_logit_bias(f, vocab, p);
    f.boolean({"ignore_eos"}, &p->ignore_eos);
}

/// A comma list of drafter types. The drafter can't be changed per request, but "none" turns it off.
void check_spec_type(Fields& fields, const std::string& spelt, std::string_view list, engine::SpecRequest* spec) {
    while (!fields.failed()) {
        const size_t comma = std::min(list.find(','), list.size());
        const std::string_view name = list.substr(0, comma);
        if (name != "default" && !spec::spec_type_of(name).has_value()) {
            fields.fail(spelt, fmt::format("unknown speculative type '{}'", name.substr(0, 64)));
        } else if (name == "none") {
            spec->n_max = 0;
        }
        if (comma == list.size()) {
            return;
        }
        list.remove_prefix(comma + 1);
    }
}

std::optional<bool> probabilistic_of(std::string_view how) {
    return how == "greedy" || how == "probabilistic" ? std::optional(how == "probabilistic") : std::nullopt;
}

/// The fields that act and the four that are only checked, in one spelling: dotted keys of the body, or the nested
/// object's.
void parse_spec_fields(Fields& f, const std::string& dot, engine::SpecRequest* spec) {
    const auto integer = [&f](const std::string& name, int64_t low, std::optional<int32_t>* out) {
        if (f.has(name)) {
            int32_t value = 0;
            f.strict_integer({name}, low, kMaxInt, &value);
            *out = value;
        }
    };
    integer(dot + "n_max", 0, &spec->n_max);
    integer(dot + "n_min", 0, &spec->n_min);
    integer(dot + "relaxed_top_n", 0, &spec->relaxed_top_n);
    integer(dot + "relaxed_max_tokens", -1, &spec->relaxed_max_tokens);
    const auto number = [&f](const std::string& name, double low, double high, std::optional<float>* out) {
        if (f.has(name)) {
            float value = 0.0F;
            f.number({name}, low, high, &value);
            *out = value;
        }
    };
    number(dot + "p_min", 0.0, 1.0, &spec->p_min);
    number(dot + "relaxed_delta", -1.0, kMaxFloat, &spec->relaxed_delta);
    number(dot + "relaxed_max_gap", -1.0, kMaxFloat, &spec->relaxed_max_gap);
    number(dot + "typical_epsilon", 0.0, 1.0, &spec->typical_epsilon);
    number(dot + "typical_delta", 0.0, 1.0, &spec->typical_delta);
    if (f.has(dot + "adaptive")) {
        bool value = false;
        f.boolean({dot + "adaptive"}, &value);
        spec->adaptive = value;
    }
    const auto choice = [&f](const std::string& name, auto parse, const char* known, auto* out) {
        std::string text;
        f.text({name}, &text);
        if (f.failed() || text.empty()) {
            return;
        }
        *out = parse(text);
        if (!out->has_value()) {
            std::string spelt;
            f.find({name}, &spelt);
            f.fail(spelt, fmt::format("unknown value '{}'; known: {}", text.substr(0, 64), known));
        }
    };
    choice(dot + "sampling", probabilistic_of, "greedy, probabilistic", &spec->probabilistic);
    choice(dot + "rule", spec::rule_of, "auto, strict, relaxed, typical, lossless", &spec->rule);
    choice(dot + "relaxed_scope", spec::scope_of, "all, thinking", &spec->relaxed_scope);
    std::optional<int32_t> unused;
    integer(dot + "ngram_size_n", 1, &unused);
    integer(dot + "ngram_size_m", 1, &unused);
    integer(dot + "ngram_min_hits", 1, &unused);
    std::string type;
    f.text({dot + "type"}, &type);
    if (!type.empty()) {
        std::string spelt;
        f.find({dot + "type"}, &spelt);
        check_spec_type(f, spelt, type, spec);
    }
}

void parse_spec(Fields& fields, engine::SpecRequest* spec) {
    std::string spelt;
    const JsonIn* nested = fields.find({"speculative"}, &spelt);
    if (nested != nullptr) {
        if (!nested->is_object()) {
            fields.fail(spelt, fmt::format("type must be object, but is {}", nested->type_name()));
            return;
        }
        Fields inner(*nested, "speculative.");
        parse_spec_fields(inner, "", spec);
        if (inner.failed()) {
            fields.fail(inner.status().error());
            return;
        }
    }
    parse_spec_fields(fields, "speculative.", spec);  // the dotted key wins: it's the documented one
    if (spec->n_max.value_or(0) > 0 && spec->n_min.value_or(0) > spec->n_max.value_or(0)) {
        // Every draft would be thrown away: speculation silently off.
        fields.fail("speculative.n_min",
                    fmt::format("Value must not be above speculative.n_max, but {} > {}", *spec->n_min, *spec->n_max));
    }
}

/// Fields of llama-server that later versions will serve: refused, never silently ignored.
void refuse_unsupported(Fields& fields) {
    std::string spelt;
    int32_t n_indent = 0;
    fields.integer({"n_indent"}, 0, kMaxInt, &n_indent);
    if (n_indent > 0) {
        fields.fail(not_yet("n_indent"));
    }
    if (const JsonIn* lora = fields.find({"lora"}, &spelt); lora != nullptr) {
        if (!lora->is_array()) {
            fields.fail(spelt, fmt::format("type must be array, but is {}", lora->type_name()));
        } else if (!lora->empty()) {
            fields.fail(not_yet(spelt));
        }
    }
    for (const char* media : {"image_data", "multimodal_data"}) {
        if (const JsonIn* data = fields.find({media}, &spelt); data != nullptr && !data->empty()) {
            fields.fail(spelt, "needs a multimodal model; this server has a text model");
        }
    }
}

void parse_reply_options(Fields& fields, int32_t n_slots, ReplyOptions* reply) {
    fields.integer({"n_cmpl", "n"}, 1, std::max(n_slots, 1), &reply->n_choices);
    fields.boolean({"stream"}, &reply->stream);
    fields.boolean({"verbose"}, &reply->verbose);
    fields.boolean({"return_tokens"}, &reply->return_tokens);
    fields.boolean({"return_progress"}, &reply->return_progress);
    fields.boolean({"timings_per_token"}, &reply->timings_per_token);
    fields.integer({"sse_ping_interval"}, -1, kMaxInt, &reply->sse_ping_interval_s);
    // A year of silence is never; and seconds must not overflow the clock's nanoseconds.
    reply->sse_ping_interval_s = std::clamp(reply->sse_ping_interval_s, 0, 31536000);
    std::string spelt;
    const JsonIn* names = fields.find({"response_fields"}, &spelt);
    if (names != nullptr && is_list_of_strings(*names)) {
        reply->response_fields = names->get<std::vector<std::string>>();
    }
    const JsonIn* stream_options = fields.find({"stream_options"}, &spelt);
    if (stream_options == nullptr) {
        return;
    }
    if (!stream_options->is_object()) {
        fields.fail(spelt, fmt::format("type must be object, but is {}", stream_options->type_name()));
        return;
    }
    Fields inner(*stream_options, "stream_options.");
    inner.boolean({"include_usage"}, &reply->include_usage);
    if (inner.failed()) {
        fields.fail(inner.status().error());
    }
}

void parse_limits(Fields& fields, const ParseContext& context, engine::Request* request) {
    int32_t n_predict = -1;
    fields.integer({"n_predict", "max_completion_tokens", "max_tokens"}, -1, kMaxInt, &n_predict);
    request->n_predict = n_predict == -1 ? context.n_predict : n_predict;
    fields.integer({"n_keep"}, -1, kMaxInt, &request->n_keep);
    fields.integer({"n_discard"}, 0, kMaxInt, &request->n_discard);
    fields.integer64({"t_max_predict_ms"}, -1, std::numeric_limits<int64_t>::max(), &request->t_max_predict_ms);
    fields.boolean({"cache_prompt"}, &request->cache_prompt);
    request->n_cache_reuse = context.n_cache_reuse;
    fields.integer({"n_cache_reuse"}, 0, kMaxInt, &request->n_cache_reuse);
    int32_t id_slot = -1;
    fields.integer({"id_slot"}, std::numeric_limits<int32_t>::min(), kMaxInt, &id_slot);
    if (!fields.failed() && (id_slot < -1 || id_slot >= context.n_slots)) {
        fields.fail("id_slot",
                    fmt::format("Invalid slot ID {}, this server has {} slots (-1: any)", id_slot, context.n_slots));
    }
    request->id_slot = id_slot;
    fields.integer({"n_probs", "logprobs"}, 0, kMaxInt, &request->n_probs);
    request->n_probs = std::min(request->n_probs, context.vocab->n_tokens());
    fields.boolean({"marks"}, &request->marks);
    fields.boolean({"post_sampling_probs"}, &request->post_sampling_probs);
    bool backend_sampling = false;
    fields.boolean({"backend_sampling"}, &backend_sampling);  // checked only: the outcome must be the same
}

}  // namespace

Result<CompletionRequest> parse_fields(const JsonIn& object, std::string_view body, const ParseContext& context,
                                       GrammarRule rule) {
    Fields fields(object);
    engine::Request request;
    request.sampling = context.sampling;
    request.stop = context.stop;
    request.n_keep = context.n_keep;
    request.cache_prompt = context.cache_prompt;
    CompletionRequest result;
    result.reply.sse_ping_interval_s = context.sse_ping_interval_s;

    parse_limits(fields, context, &request);
    parse_stop(fields, &request);
    parse_sampling(fields, *context.vocab, &request.sampling);
    parse_grammar(fields, body, rule, &request.sampling);
    parse_spec(fields, &request.spec);
    parse_reply_options(fields, context.n_slots, &result.reply);
    refuse_unsupported(fields);
    FORESAY_CHECK_OK(fields.status());
    if (request.id_slot >= 0 && result.reply.n_choices > 1) {
        return error(Code::kInvalidArgument, "Field 'id_slot': one slot can't hold several completions");
    }
    result.tasks.push_back(std::move(request));
    return result;
}

void set_prompts(CompletionRequest* request, std::vector<Tokens> prompts) {
    const engine::Request base = std::move(request->tasks.front());
    request->tasks.clear();
    for (Tokens& tokens : prompts) {
        for (int32_t choice = 0; choice < request->reply.n_choices; ++choice) {
            engine::Request& task = request->tasks.emplace_back(base);
            task.prompt = choice + 1 == request->reply.n_choices ? std::move(tokens) : tokens;
            if (base.sampling.seed != kRandomSeed) {
                task.sampling.seed = base.sampling.seed + static_cast<uint32_t>(choice);
            }
        }
    }
}

Result<CompletionRequest> parse_native(const JsonIn& object, std::string_view body, const ParseContext& context) {
    FORESAY_TRY(CompletionRequest result, parse_fields(object, body, context));
    std::string spelt;
    const JsonIn* prompt = Fields(object).find({"prompt"}, &spelt);
    if (prompt == nullptr) {
        return error(Code::kInvalidArgument, "key 'prompt' not found");
    }
    const size_t max_prompts = std::max<size_t>(context.max_prompts / static_cast<size_t>(result.reply.n_choices), 1);
    FORESAY_TRY(std::vector<Tokens> prompts, parse_prompts(*prompt, *context.vocab, max_prompts));
    set_prompts(&result, std::move(prompts));
    return result;
}

Result<CompletionRequest> parse_completion(std::string_view body, const ParseContext& context) {
    JsonIn object;
    FORESAY_CHECK_OK(parse_object(body, &object));
    return parse_native(object, body, context);
}

Result<CompletionRequest> parse_text_completion(const JsonIn& object, std::string_view body,
                                                const ParseContext& context) {
    const Fields fields(object);
    std::string spelt;
    // Neutral values come from clients that send every field.
    if (const JsonIn* echo = fields.find({"echo"}, &spelt); echo != nullptr && *echo != JsonIn(false)) {
        return error(Code::kInvalidArgument, "Field 'echo': not supported; only false is");
    }
    if (const JsonIn* best_of = fields.find({"best_of"}, &spelt); best_of != nullptr && *best_of != JsonIn(1)) {
        return error(Code::kInvalidArgument, "Field 'best_of': not supported; only 1 is");
    }
    if (const JsonIn* suffix = fields.find({"suffix"}, &spelt); suffix != nullptr && *suffix != JsonIn("")) {
        return error(Code::kInvalidArgument, "Field 'suffix': not supported; use /infill");
    }
    return parse_native(object, body, context);
}

}  // namespace foresay::server
