// The report of `foresay tune` as one HTML page: no scripts, no outside requests, light and dark, readable on a phone.
#pragma once

#include <string>

#include "cli/tune/report.h"

namespace foresay::cli::tune {

std::string to_html(const Report& report);

}  // namespace foresay::cli::tune
