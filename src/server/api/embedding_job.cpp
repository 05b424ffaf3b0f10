#include "server/api/embedding_job.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/errors.h"

namespace foresay::server {

class EmbeddingJob::TaskSink final : public engine::Sink {
  public:
    TaskSink(std::shared_ptr<EmbeddingJob> job, size_t index, std::shared_ptr<Ticket> ticket)
        : job_(std::move(job)), index_(index), ticket_(std::move(ticket)) {}

    void token(const engine::TokenEvent&) override {}

    void embedding(std::vector<float>&& values) override { values_ = std::move(values); }

    void final(const engine::Final&) override {
        job_->writer_->post(
            [job = job_, i = index_, values = std::move(values_)]() mutable { job->on_done(i, std::move(values)); });
    }

    void failed(const Error& error) override {
        job_->writer_->post([job = job_, error] { job->on_failed(error); });
    }

  private:
    std::shared_ptr<EmbeddingJob> job_;
    size_t index_;
    std::shared_ptr<Ticket> ticket_;  // given back with the sink
    std::vector<float> values_;
};

void EmbeddingJob::submit(const std::string& body) {
    const auto self = shared_from_this();
    auto parsed = parse_embedding(body, is_openai_, app_->engine->pooling(), app_->parse);
    if (!parsed) {
        refuse(parsed.error());
        return;
    }
    request_ = std::move(*parsed);
    ApiError busy;
    auto tickets = take_tickets(app_, request_.prompts.size(), &busy);
    if (tickets.empty()) {
        writer_->post([self, busy] { self->fail(busy); });
        return;
    }
    embeddings_.resize(request_.prompts.size());
    n_open_ = request_.prompts.size();
    for (size_t i = 0; i < request_.prompts.size(); ++i) {
        engine::Request task;
        task.prompt = request_.prompts[i];
        task.n_predict = 0;
        task.embed = true;
        task.cache_prompt = false;
        const Result<int64_t> id =
            app_->engine->submit(std::move(task), std::make_shared<TaskSink>(self, i, std::move(tickets[i])));
        if (!id) {
            refuse(id.error());
            return;
        }
        const std::lock_guard<std::mutex> lock(ids_mutex_);
        ids_.push_back(*id);
    }
    writer_->post([self] {
        self->writer_->on_gone([weak = self->weak_from_this()] {
            if (const auto job = weak.lock(); job && !job->over_) {
                job->over_ = true;
                job->cancel_all();
            }
        });
    });
}

void EmbeddingJob::refuse(const Error& error) {
    writer_->post([self = shared_from_this(), error] { self->on_failed(error); });
}

void EmbeddingJob::on_done(size_t i, std::vector<float> values) {
    if (over_) {
        return;
    }
    if (values.empty()) {  // the server is shutting down
        on_failed(error(Code::kCancelled, "the server is shutting down"));
        return;
    }
    embeddings_[i] = std::move(values);
    if (--n_open_ > 0) {
        return;
    }
    over_ = true;
    http::HttpReply reply;
    reply.body = dump(format_embeddings(request_, embeddings_, app_->engine->info().n_embd, app_->engine->pooling()));
    writer_->send(std::move(reply));
}

void EmbeddingJob::on_failed(const Error& error) {
    ApiError answer = to_api_error(error);
    if (error.code == Code::kCapacity) {
        answer.n_ctx = app_->engine->info().n_ctx_slot;
    }
    fail(answer);
}

void EmbeddingJob::fail(const ApiError& error) {
    if (!over_) {
        over_ = true;
        writer_->send(error_reply(error));
        cancel_all();
    }
}

void EmbeddingJob::cancel_all() {
    const std::lock_guard<std::mutex> lock(ids_mutex_);
    for (const int64_t id : ids_) {
        app_->engine->cancel(id);
    }
}

}  // namespace foresay::server
