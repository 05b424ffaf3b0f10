// Flags of the HTTP server and of what it makes of chats.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "chat/builtin.h"
#include "cli/flag_values.h"
#include "cli/flags.h"

namespace foresay::cli {
namespace {

/// Adds the keys of a comma list.
Status take_keys(Options& options, std::string_view text) {
    for (std::string& key : split(text, ',')) {
        options.server.api_keys.push_back(std::move(key));
    }
    return ok();
}

/// One key per line; blank lines and lines that begin with # are skipped.
Status take_key_file(Options& options, std::string_view path) {
    FORESAY_TRY(const std::string text, read_text_file(std::string(path)));
    for (std::string line : split(text, '\n')) {
        while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) {
            line.pop_back();
        }
        if (!line.empty() && line.front() != '#') {
            options.server.api_keys.push_back(std::move(line));
        }
    }
    return ok();
}

Status take_ping(Options& options, std::string_view text) {
    FORESAY_TRY(const int64_t seconds, parse_int(text, -1, 86400));
    options.server.sse_ping_interval_s = static_cast<int>(seconds);
    return ok();
}

/// A name or a text: what holds a tag is a text. Whether the text is a template is seen once --jinja is known.
Status take_template(Options& options, std::string_view text) {
    if (!chat::is_builtin(text) && text.find("{{") == std::string_view::npos &&
        text.find("{%") == std::string_view::npos) {
        std::string names;
        for (const std::string_view name : chat::builtin_names()) {
            names.append(names.empty() ? "" : ", ").append(name);
        }
        return error(Code::kInvalidArgument,
                     fmt::format("there is no built-in template '{}'; give the text of a Jinja template, or one of: {}",
                                 text, names));
    }
    options.server.chat_template = text;
    return ok();
}

Status take_kwargs(Options& options, std::string_view text) {
    FORESAY_CHECK_OK(chat::check_kwargs(text));
    options.server.chat_template_kwargs = text;
    return ok();
}

Status take_thinking(Options& options, std::string_view text) {
    FORESAY_TRY(const std::string choice, parse_choice(text, {"on", "off", "auto"}));
    options.server.thinking = choice == "auto" ? std::optional<bool>() : std::optional<bool>(choice == "on");
    return ok();
}

Flag ignored(std::vector<std::string> names, std::string env, std::string value, std::string help, std::string note,
             Setter check) {
    return {.names = std::move(names),
            .env = std::move(env),
            .value = std::move(value),
            .help = std::move(help),
            .note = std::move(note),
            .set = std::move(check),
            .commands = kServe,
            .support = Support::kNoEffect};
}

Flag refused(std::vector<std::string> names, std::string env, std::string value, std::string help,
             std::string note = {}) {
    return {.names = std::move(names),
            .env = std::move(env),
            .value = std::move(value),
            .help = std::move(help),
            .note = std::move(note),
            .commands = kServe,
            .support = Support::kUnsupported};
}

/// A boolean that has no effect, with both spellings.
Flag ignored_boolean(std::vector<std::string> names, std::vector<std::string> negated, std::string env,
                     std::string help, std::string note) {
    return {.names = std::move(names),
            .negated = std::move(negated),
            .env = std::move(env),
            .help = std::move(help),
            .note = std::move(note),
            .set = check_bool(),
            .commands = kServe,
            .support = Support::kNoEffect};
}

}  // namespace

FlagGroup server_flags() {
    return {"Server",
            {
                {.names = {"--host"},
                 .env = "LLAMA_ARG_HOST",
                 .value = "ADDRESS",
                 .fallback = "127.0.0.1",
                 .help = "address to listen on; several: a comma list",
                 .set = to_nonempty_text([](Options& o) -> std::string& { return o.server.host; }),
                 .commands = kServe},
                {.names = {"--port"},
                 .env = "LLAMA_ARG_PORT",
                 .value = "N",
                 .fallback = "8080",
                 .help = "port to listen on; 0: any free one, see the line 'listening on'",
                 .set = to_int([](Options& o) -> int32_t& { return o.server.port; }, 0, 65535),
                 .commands = kServe},
                {.names = {"--api-key"},
                 .env = "LLAMA_API_KEY",
                 .value = "KEY",
                 .help = "key that requests must carry; a comma list",
                 .set = take_keys,
                 .commands = kServe,
                 .repeatable = true},
                {.names = {"--api-key-file"},
                 .env = "LLAMA_ARG_API_KEY_FILE",
                 .value = "FILE",
                 .help = "file of keys, one a line",
                 .set = take_key_file,
                 .commands = kServe,
                 .repeatable = true},
                {.names = {"--api-prefix"},
                 .env = "LLAMA_ARG_API_PREFIX",
                 .value = "PREFIX",
                 .help = "in front of all routes",
                 .set = to_text([](Options& o) -> std::string& { return o.server.api_prefix; }),
                 .commands = kServe},
                {.names = {"--metrics"},
                 .negated = {"--no-metrics"},
                 .env = "LLAMA_ARG_ENDPOINT_METRICS",
                 .fallback = "on",
                 .help = "GET /metrics",
                 .set = to_bool([](Options& o) -> bool& { return o.server.metrics; }),
                 .commands = kServe},
                {.names = {"--slots"},
                 .negated = {"--no-slots"},
                 .env = "LLAMA_ARG_ENDPOINT_SLOTS",
                 .fallback = "on",
                 .help = "GET /slots",
                 .set = to_bool([](Options& o) -> bool& { return o.server.slots; }),
                 .commands = kServe},
                {.names = {"--props"},
                 .negated = {"--no-props"},
                 .env = "LLAMA_ARG_ENDPOINT_PROPS",
                 .fallback = "off",
                 .help = "POST /props",
                 .set = to_bool([](Options& o) -> bool& { return o.server.props; }),
                 .commands = kServe},
                {.names = {"-to", "--timeout"},
                 .env = "LLAMA_ARG_TIMEOUT",
                 .value = "SECONDS",
                 .fallback = "3600",
                 .help = "longest time of one read or write",
                 .set = to_int([](Options& o) -> int32_t& { return o.server.timeout_s; }, 1, 1 << 24),
                 .commands = kServe},
                {.names = {"--sse-ping-interval"},
                 .env = "LLAMA_ARG_SSE_PING_INTERVAL",
                 .value = "SECONDS",
                 .fallback = "30",
                 .help = "sign of life in a silent stream; -1: none",
                 .set = take_ping,
                 .commands = kServe},
                {.names = {"--cors-origins"},
                 .env = "LLAMA_ARG_CORS_ORIGINS",
                 .value = "LIST",
                 .fallback = "none",
                 .help = "pages that may use the server from a browser; * is any, the peer's default",
                 .set = to_text([](Options& o) -> std::string& { return o.server.cors_origins; }),
                 .commands = kServe},
                {.names = {"--cors-methods"},
                 .env = "LLAMA_ARG_CORS_METHODS",
                 .value = "LIST",
                 .fallback = "GET, POST, DELETE, OPTIONS",
                 .help = "what such pages may do",
                 .set = to_text([](Options& o) -> std::string& { return o.server.cors_methods; }),
                 .commands = kServe},
                {.names = {"--cors-headers"},
                 .env = "LLAMA_ARG_CORS_HEADERS",
                 .value = "LIST",
                 .fallback = "*",
                 .help = "headers such pages may send",
                 .set = to_text([](Options& o) -> std::string& { return o.server.cors_headers; }),
                 .commands = kServe},
                {.names = {"--cors-credentials"},
                 .negated = {"--no-cors-credentials"},
                 .env = "LLAMA_ARG_CORS_CREDENTIALS",
                 .fallback = "on",
                 .help = "such pages may send credentials",
                 .set = to_bool([](Options& o) -> bool& { return o.server.cors_credentials; }),
                 .commands = kServe},
                {.names = {"--cache-prompt"},
                 .negated = {"--no-cache-prompt"},
                 .env = "LLAMA_ARG_CACHE_PROMPT",
                 .fallback = "on",
                 .help = "keep a slot's prompt for the next request that begins like it",
                 .set = to_bool([](Options& o) -> bool& { return o.server.cache_prompt; }),
                 .commands = kServe},
                {.names = {"-r", "--reverse-prompt"},
                 .value = "TEXT",
                 .help = "default stop string",
                 .set = [](Options& o, std::string_view text) -> Status {
                     o.server.stop.emplace_back(text);
                     return ok();
                 },
                 .commands = kServe | kRun,
                 .repeatable = true},
                {.names = {"--ui", "--webui"},
                 .negated = {"--no-ui", "--no-webui"},
                 .env = "LLAMA_ARG_UI",
                 .fallback = "on",
                 .help = "the page at /",
                 .set = to_bool([](Options& o) -> bool& { return o.server.page; }),
                 .commands = kServe},
                ignored_boolean({"-cb", "--cont-batching"}, {"-nocb", "--no-cont-batching"}, "LLAMA_ARG_CONT_BATCHING",
                                "compute requests together", "always on"),
                ignored_boolean({"--cache-idle-slots"}, {"--no-cache-idle-slots"}, "LLAMA_ARG_CACHE_IDLE_SLOTS",
                                "keep prompts of idle slots in memory", "a slot keeps its own prompt only"),
                {.names = {"--slot-save-path"},
                 .value = "DIR",
                 .help = "folder of slot files, for POST /slots/ID?action=save|restore|erase",
                 .set = [](Options& o, std::string_view path) -> Status {
                     std::error_code ec;
                     if (!std::filesystem::is_directory(path, ec)) {
                         return error(Code::kInvalidArgument, fmt::format("{} is not a folder", path));
                     }
                     o.server.slot_save_path = path;
                     return ok();
                 },
                 .commands = kServe},
                {.names = {"--max-queued"},
                 .value = "N",
                 .fallback = "256",
                 .help = "requests that may wait for a slot; more get 429 and Retry-After",
                 .set = to_int([](Options& o) -> int32_t& { return o.server.max_queued; }, 0, 1 << 20),
                 .commands = kServe},
                {.names = {"--max-body-mib"},
                 .value = "N",
                 .fallback = "64",
                 .help = "largest body of a request, in MiB; a larger one gets 413",
                 .set = [](Options& o, std::string_view text) -> Status {
                     FORESAY_TRY(const int64_t n, parse_int(text, 1, 4096));
                     o.server.max_body_bytes = static_cast<size_t>(n) << 20;
                     return ok();
                 },
                 .commands = kServe},
                {.names = {"--max-connections"},
                 .value = "N",
                 .fallback = "1024",
                 .help = "open connections; more get 503 and Retry-After",
                 .set = to_int([](Options& o) -> int32_t& { return o.server.max_connections; }, 1, 1 << 20),
                 .commands = kServe},
                ignored({"-cram", "--cache-ram"}, "LLAMA_ARG_CACHE_RAM", "MIB", "memory for prompts of other slots",
                        "a slot keeps its own prompt only", check_int(-1, kMaxInt)),
                {.names = {"--cache-reuse"},
                 .env = "LLAMA_ARG_CACHE_REUSE",
                 .value = "N",
                 .fallback = "0",
                 .help = "least chunk of a prompt to take over by moving it; 0: off. Moved chunks change results",
                 .set = to_int([](Options& o) -> int32_t& { return o.server.n_cache_reuse; }, 0, kMaxInt),
                 .commands = kServe},
                ignored({"-sps", "--slot-prompt-similarity"}, "", "X", "how alike prompts must be to get the same slot",
                        "the slot with the longest common beginning is taken", check_float(0, 1)),
                ignored({"--threads-http"}, "LLAMA_ARG_THREADS_HTTP", "N", "threads for HTTP",
                        "one thread serves all connections", check_int(-1, 4096)),
                ignored({"--reuse-port"}, "LLAMA_ARG_REUSE_PORT", "", "share the port with other processes",
                        "the port isn't shared", check_anything()),
                {.names = {"--embd-normalize"},
                 .value = "N",
                 .fallback = "2",
                 .help = "norm of POST /embedding: -1 none, 0 largest value, 1 taxicab, 2 euclidean, above: p-norm",
                 .set = to_int([](Options& o) -> int32_t& { return o.server.embd_normalize; }, -1, kMaxInt),
                 .commands = kServe},
                refused({"--path"}, "LLAMA_ARG_STATIC_PATH", "DIR", "serve the files of DIR"),
                refused({"--ssl-key-file"}, "LLAMA_ARG_SSL_KEY_FILE", "FILE", "TLS", "put a TLS proxy in front"),
                refused({"--ssl-cert-file"}, "LLAMA_ARG_SSL_CERT_FILE", "FILE", "TLS", "put a TLS proxy in front"),
                {.names = {"--embedding", "--embeddings"},
                 .negated = {"--no-embeddings"},
                 .env = "LLAMA_ARG_EMBEDDINGS",
                 .fallback = "off",
                 .help = "serve embeddings, beside completions",
                 .set = to_bool([](Options& o) -> bool& { return o.engine.embeddings; }),
                 .commands = kServe},
                refused({"--rerank", "--reranking"}, "LLAMA_ARG_RERANKING", "", "serve reranking"),
                {.names = {"--pooling"},
                 .env = "LLAMA_ARG_POOLING",
                 .value = "none|mean|cls|last",
                 .fallback = "the file's, else mean",
                 .help = "how a text's rows become one embedding",
                 .set = [](Options& o, std::string_view text) -> Status {
                     const std::array<std::pair<std::string_view, engine::Pooling>, 4> kinds{
                         {{"none", engine::Pooling::kNone},
                          {"mean", engine::Pooling::kMean},
                          {"cls", engine::Pooling::kCls},
                          {"last", engine::Pooling::kLast}}};
                     for (const auto& [name, pooling] : kinds) {
                         if (name == text) {
                             o.engine.pooling = pooling;
                             return ok();
                         }
                     }
                     return error(Code::kInvalidArgument, fmt::format("{} is none of none, mean, cls, last", text));
                 },
                 .commands = kServe},
                refused({"-sp", "--special"}, "", "", "show special tokens in the text"),
                refused({"--sleep-idle-seconds"}, "", "N", "unload the model when idle"),
                refused({"--spm-infill"}, "", "", "suffix first for infill"),
            }};
}

FlagGroup template_flags() {
    return {"Chat",
            {
                {.names = {"--jinja"},
                 .negated = {"--no-jinja"},
                 .env = "LLAMA_ARG_JINJA",
                 .fallback = "on",
                 .help = "templates of the Jinja language; off: built-in formats only, and no tools",
                 .set = to_bool([](Options& o) -> bool& { return o.server.jinja; }),
                 .commands = kServe},
                {.names = {"--chat-template"},
                 .env = "LLAMA_ARG_CHAT_TEMPLATE",
                 .value = "NAME|TEXT",
                 .fallback = "the model's",
                 .help = "a built-in format (a wrong name lists them), or the text of a Jinja template",
                 .set = take_template,
                 .commands = kServe},
                {.names = {"--chat-template-file"},
                 .env = "LLAMA_ARG_CHAT_TEMPLATE_FILE",
                 .value = "FILE",
                 .help = "file of a Jinja template",
                 .set = [](Options& o, std::string_view path) -> Status {
                     FORESAY_TRY(o.server.chat_template, read_text_file(std::string(path)));
                     return ok();
                 },
                 .commands = kServe},
                {.names = {"--chat-template-kwargs"},
                 .env = "LLAMA_ARG_CHAT_TEMPLATE_KWARGS",
                 .value = "JSON",
                 .help = "variables for the template, an object; requests may set others",
                 .set = take_kwargs,
                 .commands = kServe},
                {.names = {"--reasoning-format"},
                 .env = "LLAMA_ARG_THINK",
                 .value = "none|auto|deepseek|deepseek-legacy",
                 .fallback = "auto",
                 .help = "where thoughts go: none leaves them in the content, deepseek-legacy puts them there as well",
                 .set = to_choice([](Options& o) -> std::string& { return o.server.reasoning_format; },
                                  {"none", "auto", "deepseek", "deepseek-legacy"}),
                 .commands = kServe},
                {.names = {"-rea", "--reasoning"},
                 .env = "LLAMA_ARG_REASONING",
                 .value = "on|off|auto",
                 .fallback = "auto",
                 .help = "tell the template to let the model think, or not to",
                 .set = take_thinking,
                 .commands = kServe},
                {.names = {"--reasoning-effort"},
                 .env = "LLAMA_ARG_REASONING_EFFORT",
                 .value = "NAME",
                 .fallback = "the template's",
                 .help = "how much thinking, for templates that know it; none: no thinking",
                 .set = to_text([](Options& o) -> std::string& { return o.server.reasoning_effort; }),
                 .commands = kServe},
                {.names = {"--reasoning-budget"},
                 .env = "LLAMA_ARG_THINK_BUDGET",
                 .value = "N",
                 .fallback = "-1",
                 .help = "most thinking tokens of a reply, then thoughts are closed; -1: no limit",
                 .set = to_int([](Options& o) -> int32_t& { return o.server.reasoning_budget; }, -1, kMaxInt),
                 .commands = kServe},
                {.names = {"--reasoning-budget-message"},
                 .env = "LLAMA_ARG_THINK_BUDGET_MESSAGE",
                 .value = "TEXT",
                 .help = "said before thoughts are closed by the budget",
                 .set = to_text([](Options& o) -> std::string& { return o.server.reasoning_budget_message; }),
                 .commands = kServe},
                {.names = {"--prefill-assistant"},
                 .negated = {"--no-prefill-assistant"},
                 .env = "LLAMA_ARG_PREFILL_ASSISTANT",
                 .fallback = "on",
                 .help = "continue a last message of the assistant",
                 .set = to_bool([](Options& o) -> bool& { return o.server.prefill_assistant; }),
                 .commands = kServe},
                {.names = {"--skip-chat-parsing"},
                 .negated = {"--no-skip-chat-parsing"},
                 .env = "LLAMA_ARG_SKIP_CHAT_PARSING",
                 .fallback = "off",
                 .help = "leave replies as they are: thoughts and tool calls stay in the content",
                 .set = to_bool([](Options& o) -> bool& { return o.server.skip_chat_parsing; }),
                 .commands = kServe},
                {.names = {"-e", "--escape"},
                 .negated = {"--no-escape"},
                 .fallback = "on",
                 .help = "in the prompt of run and tokenize, \\n means a new line, and so on",
                 .set = to_bool([](Options& o) -> bool& { return o.local.escape; }),
                 .commands = kServe | kRun | kTokenize},
            }};
}

}  // namespace foresay::cli
