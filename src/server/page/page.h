// The page at /: index.html, built into the program (CMakeLists.txt).
#pragma once

#include <string>

namespace foresay::server {

/// The whole page: no other file, no request to anyone but this server.
std::string page_html();

}  // namespace foresay::server
