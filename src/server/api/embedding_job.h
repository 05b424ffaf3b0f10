// One embeddings request from its body to its reply. All state is the I/O thread's; engine threads only post.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/api/app.h"
#include "server/api/embeddings.h"
#include "server/http/http_types.h"

namespace foresay::server {

class EmbeddingJob : public std::enable_shared_from_this<EmbeddingJob> {
  public:
    EmbeddingJob(std::shared_ptr<App> app, std::shared_ptr<http::ResponseWriter> writer, bool is_openai)
        : app_(std::move(app)), writer_(std::move(writer)), is_openai_(is_openai) {}

    /// Parses the body and submits a task for each input; every failure is answered. Runs on a worker.
    void submit(const std::string& body);

  private:
    class TaskSink;

    void refuse(const Error& error);
    void on_done(size_t i, std::vector<float> values);
    void on_failed(const Error& error);
    void fail(const ApiError& error);
    void cancel_all();

    std::shared_ptr<App> app_;
    std::shared_ptr<http::ResponseWriter> writer_;
    bool is_openai_;
    EmbeddingRequest request_;
    std::mutex ids_mutex_;
    std::vector<int64_t> ids_;  // guarded by ids_mutex_: a worker submits while answers come
    std::vector<std::vector<float>> embeddings_;
    size_t n_open_ = 0;
    bool over_ = false;
};

}  // namespace foresay::server
