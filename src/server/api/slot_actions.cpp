#include "server/api/slot_actions.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/errors.h"
#include "server/api/fields.h"
#include "server/api/format_completion.h"
#include "server/api/json.h"

namespace foresay::server {
namespace {

Error refuse(std::string message) {
    return error(Code::kInvalidArgument, std::move(message));
}

Json reply_of(engine::SlotAction action, int slot, const std::string& filename, const engine::SlotFileResult& result) {
    Json j = {{"id_slot", slot}};
    switch (action) {
        case engine::SlotAction::kErase:
            j["n_erased"] = result.n_tokens;
            break;
        case engine::SlotAction::kSave:
            j["filename"] = filename;
            j["n_saved"] = result.n_tokens;
            j["n_written"] = result.n_bytes;
            j["timings"] = {{"save_ms", result.ms}};
            break;
        case engine::SlotAction::kRestore:
            j["filename"] = filename;
            j["n_restored"] = result.n_tokens;
            j["n_read"] = result.n_bytes;
            j["timings"] = {{"restore_ms", result.ms}};
            break;
    }
    return j;
}

struct Job {
    engine::SlotAction action = engine::SlotAction::kErase;
    int slot = 0;
    std::string filename;
};

Result<Job> parse(const App& app, const std::string& id, const http::HttpRequest& request) {
    Job job;
    const auto [end, ec] = std::from_chars(id.data(), id.data() + id.size(), job.slot);
    if (ec != std::errc() || end != id.data() + id.size() || job.slot < 0 || job.slot >= app.parse.n_slots) {
        return refuse("Invalid slot ID");
    }
    const std::string action = request.query_value("action");
    if (action == "erase") {
        return job;
    }
    if (action != "save" && action != "restore") {
        return refuse("Invalid action");
    }
    job.action = action == "save" ? engine::SlotAction::kSave : engine::SlotAction::kRestore;
    JsonIn object;
    FORESAY_CHECK_OK(parse_object(request.body, &object));
    Fields fields(object);
    if (!fields.has("filename")) {
        return refuse("key 'filename' not found");
    }
    fields.text({"filename"}, &job.filename);
    FORESAY_CHECK_OK(fields.status());
    if (!is_safe_filename(job.filename)) {
        return refuse("Invalid filename");
    }
    return job;
}

}  // namespace

bool is_safe_filename(std::string_view name) {
    const auto is_bad = [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '/' || c == '\\';
    };
    return !name.empty() && name.size() <= 255 && name.front() != ' ' && name.back() != ' ' && name.front() != '.' &&
           name.back() != '.' && name.find("..") == std::string_view::npos &&
           std::none_of(name.begin(), name.end(), is_bad) && valid_utf8_prefix(name).size() == name.size();
}

void answer_slot_action(const std::shared_ptr<App>& app, const std::string& id, const http::HttpRequest& request,
                        const std::shared_ptr<http::ResponseWriter>& writer) {
    Result<Job> job = parse(*app, id, request);
    if (!job) {
        writer->send(error_reply(to_api_error(job.error())));
        return;
    }
    const std::string path = app->options.slot_save_path + "/" + job->filename;
    const auto done = [writer, job = *job](const Result<engine::SlotFileResult>& result) {
        http::HttpReply reply;
        if (result) {
            reply.body = dump(reply_of(job.action, job.slot, job.filename, *result));
        } else if (job.action == engine::SlotAction::kRestore) {
            reply = error_reply(make_api_error(400, "Unable to restore slot: " + result.error().message));
        } else {
            reply = error_reply(to_api_error(result.error()));
        }
        writer->post([writer, reply = std::move(reply)]() mutable { writer->send(std::move(reply)); });
    };
    const Status queued = app->engine->slot_action(job->action, job->slot, path, done);
    if (!queued.has_value()) {
        writer->send(error_reply(to_api_error(queued.error())));
    }
}

}  // namespace foresay::server
