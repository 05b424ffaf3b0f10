// Speculation settings: what a request may ask for, and what comes of it under the server's.
#pragma once

#include "engine/engine.h"

namespace foresay::engine {

/// n_max_server: the longest draft that any drafter gives; 0: no drafter. Errors: invalid_argument naming the field.
Result<SpecInForce> resolve_spec(const SpecRequest& request, const SpecOptions& server, int32_t n_max_server);

/// Ranges of the server's own settings. Errors: invalid_argument naming the flag.
Status check_spec(const SpecOptions& spec);

/// "strict", "relaxed top-5, delta 0.50, thinking only": for the start-up line.
std::string describe_rule(const spec::AcceptanceOptions& options);

}  // namespace foresay::engine
