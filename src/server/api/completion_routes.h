// The completion routes: body in, tasks and the style of their answer out. Run on a worker.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "server/api/app.h"
#include "server/api/parse_completion.h"

namespace foresay::server {

/// POST /completion, /completions.
Result<CompletionRequest> native_completion(const std::string& body, const std::shared_ptr<App>& app);
/// POST /v1/completions.
Result<CompletionRequest> text_completion(const std::string& body, const std::shared_ptr<App>& app);

/// POST /infill.
Result<CompletionRequest> infill(const std::string& body, const std::shared_ptr<App>& app);

}  // namespace foresay::server
