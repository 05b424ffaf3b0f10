// A few threads for what would hold up the I/O thread: parsing and tokenising large bodies. Must not know HTTP.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace foresay::server {

class WorkQueue {
  public:
    explicit WorkQueue(int n_threads);
    ~WorkQueue();  ///< drops what waits, ends what runs
    WorkQueue(const WorkQueue&) = delete;
    WorkQueue& operator=(const WorkQueue&) = delete;

    /// Threads: any. Exceptions of the task are caught and logged.
    void push(std::function<void()> task);

  private:
    void run();

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::function<void()>> tasks_;  // guarded by mutex_
    bool stopping_ = false;                    // guarded by mutex_
    std::vector<std::thread> threads_;
};

}  // namespace foresay::server
