// foresay serve: the server opens first (so that a client sees "loading" instead of a refused connection), then the
// model loads.
#include <csignal>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/progress.h"
#include "server/server.h"

namespace foresay::cli {

int serve_command(const Options& options) {
    // A log reader that goes away must not end the server. (In `foresay run | head` the default is right.)
    std::signal(SIGPIPE, SIG_IGN);
    auto server = server::Server::create(options.server);
    if (!server) {
        log::error("{}", server.error().to_string());
        return 1;
    }
    engine::EngineOptions engine_options = options.engine;
    engine_options.progress = make_progress(is_terminal());
    auto engine = engine::Engine::create(engine_options);
    if (!engine) {
        log::error("{}", engine.error().to_string());
        return 1;
    }
    (*server)->set_engine(std::move(*engine));
    return (*server)->run_until_signal();
}

}  // namespace foresay::cli
