#include "server/api/format_info.h"

#include <nlohmann/json.hpp>
#include <string>

#include "server/api/format_settings.h"

namespace foresay::server {
namespace {

constexpr const char* kBuildInfo = "foresay-0.1.0";

/// True values, not the sampler's defaults alone: what a request without fields would run with.
Json default_settings(const App& app) {
    engine::Request request;
    request.sampling = app.parse.sampling;
    request.n_predict = app.parse.n_predict;
    request.n_keep = app.parse.n_keep;
    request.stop = app.parse.stop;
    return format_settings(request, ReplyOptions{}, nullptr, app.format, SettingsForm::kReduced);
}

/// Foresay's own: always says which drafter and rule are active, or that none is.
Json format_speculation(const App& app) {
    const engine::SpecOptions& spec = app.engine->options().spec;
    const std::string& types = app.engine->info().spec_types;
    const bool active = !types.empty() && types != "none" && app.engine->info().spec_n_max > 0;
    Json j;
    j["active"] = active;
    j["type"] = active ? types : "none";
    j["draft_model"] = spec.draft_model;
    j["n_max"] = app.engine->info().spec_n_max;
    j["n_min"] = spec.n_min;
    j["p_min"] = spec.p_min;
    j["relaxed_top_n"] = spec.relaxed_top_n;
    j["rule"] = spec::name_of(spec::effective_rule(spec));
    j["adaptive"] = spec.adaptive;
    j["info"] = app.engine->info().spec_line;
    return j;
}

std::string token_text(const vocab::Vocab& vocab, vocab::TokenId id) {
    return id == vocab::kNoToken ? std::string() : vocab.piece(id, true);
}

}  // namespace

Json format_props(const App& app) {
    const engine::ModelInfo& info = app.engine->info();
    const vocab::Vocab& vocab = *app.parse.vocab;
    Json j;
    j["default_generation_settings"] = {{"params", default_settings(app)}, {"n_ctx", info.n_ctx_slot}};
    j["total_slots"] = info.n_parallel;
    j["model_alias"] = app.engine->options().alias;
    j["model_ftype"] = info.description;
    j["model_path"] = info.path;
    j["modalities"] = {{"vision", false}, {"video", false}, {"audio", false}};
    j["media_marker"] = "";
    j["endpoint_slots"] = app.options.slots;
    j["endpoint_props"] = app.options.props;
    j["endpoint_metrics"] = app.options.metrics;
    j["ui"] = app.options.page;
    j["ui_settings"] = Json::object();
    j["chat_template"] = app.templates != nullptr ? app.templates->description() : std::string(vocab.chat_template());
    if (app.templates != nullptr && !app.templates->tool_use().empty()) {
        j["chat_template_tool_use"] = std::string(app.templates->tool_use());
    }
    j["chat_template_caps"] = (app.templates != nullptr ? app.templates->abilities() : chat::Abilities()).to_json();
    j["bos_token"] = token_text(vocab, vocab.bos());
    j["eos_token"] = token_text(vocab, vocab.eos());
    j["build_info"] = kBuildInfo;
    j["is_sleeping"] = false;
    j["cors_proxy_enabled"] = false;
    j["speculative"] = format_speculation(app);
    j["n_threads"] = info.n_threads;
    j["cpu_isa"] = info.cpu_isa;
    return j;
}

Json format_slots(const App& app) {
    Json list = Json::array();
    for (const engine::SlotSnapshot& slot : app.engine->slots()) {
        Json j;
        j["id"] = slot.id;
        j["n_ctx"] = slot.n_ctx;
        j["speculative"] = slot.speculative;
        j["is_processing"] = slot.is_processing;
        if (slot.id_task >= 0) {
            j["id_task"] = slot.id_task;
            j["n_prompt_tokens"] = slot.n_prompt_tokens;
            j["n_prompt_tokens_processed"] = slot.n_prompt_tokens_processed;
            j["n_prompt_tokens_cache"] = slot.n_prompt_tokens_cache;
            j["params"] = format_settings(slot.request, ReplyOptions{}, nullptr, app.format, SettingsForm::kReduced);
            Json next;
            next["has_next_token"] = slot.is_processing && slot.n_remaining != 0;
            next["has_new_line"] = false;
            next["n_remain"] = slot.n_remaining;
            next["n_decoded"] = slot.n_decoded;
            j["next_token"] = Json::array({std::move(next)});
        }
        list.push_back(std::move(j));
    }
    return list;
}

Json format_models(const App& app) {
    const engine::ModelInfo& info = app.engine->info();
    const char* kind = app.parse.vocab->kind() == vocab::Kind::kSpm ? "spm" : "bpe";
    Json details = {{"parent_model", ""},          {"format", "gguf"},
                    {"family", info.architecture}, {"families", Json::array({info.architecture})},
                    {"parameter_size", ""},        {"quantization_level", ""}};
    Json model = {{"name", info.name},
                  {"model", info.name},
                  {"modified_at", ""},
                  {"size", ""},
                  {"digest", ""},
                  {"type", "model"},
                  {"description", ""},
                  {"tags", Json::array({""})},
                  {"capabilities", Json::array({"completion"})},
                  {"parameters", ""},
                  {"details", std::move(details)}};
    Json meta = {{"vocab_type", kind},       {"n_vocab", info.n_vocab},
                 {"n_ctx", info.n_ctx_slot}, {"n_ctx_train", info.n_ctx_train},
                 {"n_embd", info.n_embd},    {"n_params", info.n_params},
                 {"size", info.file_bytes},  {"ftype", info.description}};
    Json text_only = {{"input_modalities", Json::array({"text"})}, {"output_modalities", Json::array({"text"})}};
    Json entry = {{"id", info.name},
                  {"aliases", Json::array({info.name})},
                  {"tags", Json::array()},
                  {"object", "model"},
                  {"architecture", std::move(text_only)},
                  {"created", app.start_unix_s},
                  {"owned_by", "llamacpp"},
                  {"meta", std::move(meta)}};
    Json j;
    j["models"] = Json::array({std::move(model)});
    j["object"] = "list";
    j["data"] = Json::array({std::move(entry)});
    return j;
}

}  // namespace foresay::server
