// The text of GET /metrics: llama-server's names under `llamacpp:`, Foresay's own under `foresay:`.
// Source: shared/spec/server-api.md, section 12.
#pragma once

#include <cstdint>
#include <string>

#include "server/api/app.h"

namespace foresay::server {

/// Remembers the last scrape, for the two rates. I/O thread only.
class MetricsPage {
  public:
    std::string render(const App& app, size_t n_connections);

  private:
    struct Seen {
        uint64_t prompt_tokens = 0;
        double prompt_ms = 0.0;
        uint64_t predicted_steps = 0;
        double predicted_ms = 0.0;
    };

    Seen last_;
};

}  // namespace foresay::server
