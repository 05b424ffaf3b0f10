#include "server/work_queue.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace foresay::server {

WorkQueue::WorkQueue(int n_threads) {
    for (int i = 0; i < n_threads; ++i) {
        threads_.emplace_back([this] { run(); });
    }
}

WorkQueue::~WorkQueue() {
    std::deque<std::function<void()>> dropped;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        stopping_ = true;
        dropped.swap(tasks_);  // destroyed outside the lock: a task may hold the last reference to much
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

void WorkQueue::push(std::function<void()> task) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (stopping_) {
            return;
        }
        tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
}

void WorkQueue::run() {
    for (;;) {
        std::function<void()> task;
        {
            std::unique_lock<std::mutex> lock(mutex_);
            wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
            if (stopping_) {
                return;
            }
            task = std::move(tasks_.front());
            tasks_.pop_front();
        }
        try {
            task();
        } catch (const std::exception& e) {
            log::error("internal error in a request: {}", e.what());
        }
    }
}

}  // namespace foresay::server
