#include "server/http/http_server.h"

#include <fmt/format.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#define BOOST_ERROR_CODE_HEADER_ONLY
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/log.h"
#include "server/http/exchange.h"

namespace foresay::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

// Errors come back as values: no exception leaves a coroutine but Asio's own at cancellation.
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
// One write is at most this long, so that a deadline per write means progress, not size.
constexpr size_t kWritePiece = size_t{256} << 10;
constexpr auto kWriteTimeout = std::chrono::seconds(60);
// Pipelined input keeps the socket readable: look for a closed peer again after so long.
constexpr auto kPeerPause = std::chrono::milliseconds(50);
// What a client may still send after an early error reply: without reading it the kernel resets the connection and the
// reply is lost.
constexpr size_t kLingerBytes = size_t{256} << 20;
constexpr auto kLingerTime = std::chrono::seconds(2);
constexpr int kMaxRefusals = 64;

struct Shared;

/// ResponseWriter over an Outbox and a timer that wakes the session. Holds the io_context alive: engine threads may
/// post late.
class Exchange final : public ResponseWriter, public std::enable_shared_from_this<Exchange> {
  public:
    Exchange(std::shared_ptr<Shared> shared, size_t max_unsent_bytes);

    void post(std::function<void()> task) override;

    void send(HttpReply reply) override {
        if (!gone_ && outbox_.set_reply(std::move(reply))) {
            wake_.cancel();
        }
    }

    void begin_stream(HttpReply head, int ping_s, std::string ping) override {
        if (!gone_ && outbox_.set_stream(std::move(head), ping_s, std::move(ping))) {
            wake_.cancel();
        }
    }

    void write(std::string piece) override {
        if (gone_) {
            return;
        }
        if (!outbox_.add(piece)) {
            log::warn("client reads too slowly: over {} unsent bytes, closing its connection", max_unsent_bytes_);
            const std::function<void()> abort = std::exchange(abort_, nullptr);
            mark_gone();
            if (abort) {
                abort();  // what is being written would otherwise wait for its deadline
            }
            return;
        }
        wake_.cancel();
    }

    void end_stream() override {
        if (!gone_ && outbox_.end()) {
            wake_.cancel();
        }
    }

    void on_gone(std::function<void()> callback) override {
        if (gone_) {
            post(std::move(callback));
        } else if (!finished_) {
            on_gone_ = std::move(callback);
        }
    }

    bool is_gone() const override { return gone_; }

    /// The client has left: tells the handler's side, once. Posted, because write() may be what found it.
    void mark_gone() {
        if (gone_ || finished_) {
            return;
        }
        gone_ = true;
        abort_ = nullptr;
        if (on_gone_) {
            post(std::exchange(on_gone_, nullptr));
        }
        wake_.cancel();
    }

    void mark_finished() {
        finished_ = true;
        on_gone_ = nullptr;  // it usually holds what holds this
        abort_ = nullptr;
    }

    void set_abort(std::function<void()> abort) { abort_ = std::move(abort); }

    Outbox& outbox() { return outbox_; }

    asio::steady_timer& wake() { return wake_; }

  private:
    std::shared_ptr<Shared> shared_;
    asio::steady_timer wake_;
    size_t max_unsent_bytes_;
    Outbox outbox_;
    std::function<void()> on_gone_;
    std::function<void()> abort_;
    bool gone_ = false;
    bool finished_ = false;
};

class Session;

/// What sessions share. All members but the atomics are used by the I/O thread only.
struct Shared {
    asio::io_context io{1};
    HttpOptions options;
    Handler handler;
    std::set<Session*> sessions;
    bool stopping = false;
    int refusals = 0;
    std::atomic<bool> closed{false};  ///< the I/O thread has ended: nothing may be posted any more
    std::atomic<size_t> n_connections{0};

    std::string error_body(int status, const std::string& message) const {
        return options.error_body ? options.error_body(status, message) : "{}";
    }
};

Exchange::Exchange(std::shared_ptr<Shared> shared, size_t max_unsent_bytes)
    : shared_(std::move(shared)), wake_(shared_->io), max_unsent_bytes_(max_unsent_bytes), outbox_(max_unsent_bytes) {
    wake_.expires_at(Clock::time_point::max());
}

void Exchange::post(std::function<void()> task) {
    if (!shared_->closed) {
        asio::post(shared_->io, [self = shared_from_this(), task = std::move(task)] { task(); });
    }
}

/// One connection: reads requests one after the other, hands them to the handler, writes the replies.
class Session : public std::enable_shared_from_this<Session> {
  public:
    Session(std::shared_ptr<Shared> shared, tcp::socket socket)
        : shared_(std::move(shared)), stream_(std::move(socket)) {
        shared_->sessions.insert(this);
        shared_->n_connections = shared_->sessions.size();
        beast::error_code ec;
        stream_.socket().set_option(tcp::no_delay(true),
                                    ec);  // an event must not wait for the acknowledgement of the last one
        const auto endpoint = stream_.socket().remote_endpoint(ec);
        remote_ = ec ? "?" : endpoint.address().to_string();
    }

    ~Session() {
        shared_->sessions.erase(this);
        shared_->n_connections = shared_->sessions.size();
    }

    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    asio::awaitable<void> run();

    bool is_idle() const { return exchange_ == nullptr; }

    void close() {
        beast::error_code ec;
        stream_.socket().close(ec);
        stream_.cancel();
        if (exchange_) {
            exchange_->mark_gone();
        }
    }

  private:
    enum class Read { kRequest, kClose, kRefused };

    asio::awaitable<Read> read_request();
    asio::awaitable<void> refuse(int status, std::string message);
    asio::awaitable<bool> exchange_reply();
    asio::awaitable<bool> write_reply(std::shared_ptr<Exchange> exchange);
    asio::awaitable<bool> write_stream(std::shared_ptr<Exchange> exchange);
    asio::awaitable<void> watch_peer();
    asio::awaitable<bool> write_all(std::string_view bytes);
    asio::awaitable<void> linger();
    void take_request(bhttp::request<bhttp::string_body> message);

    HeadOptions head_options() const { return {shared_->options.server_name, http_minor_, !keep_, false, false}; }

    std::shared_ptr<Shared> shared_;
    beast::tcp_stream stream_;
    beast::flat_buffer buffer_;
    std::string remote_;
    std::shared_ptr<HttpRequest> request_;
    std::shared_ptr<Exchange> exchange_;
    int http_minor_ = 1;
    bool keep_ = true;
    bool head_only_ = false;
    bool between_requests_ = false;
};

asio::awaitable<void> Session::run() {
    const auto self = shared_from_this();
    const int limit = shared_->options.max_requests_per_connection;
    for (int i = 0; i < limit && !shared_->stopping; ++i) {
        between_requests_ = i > 0;
        const Read read = co_await read_request();
        if (read != Read::kRequest) {
            if (read == Read::kRefused) {
                co_await linger();
            }
            break;
        }
        keep_ = keep_ && i + 1 < limit;
        exchange_ = std::make_shared<Exchange>(shared_, shared_->options.max_unsent_bytes);
        exchange_->set_abort([this] { close(); });
        try {
            shared_->handler(std::exchange(request_, nullptr), exchange_);
        } catch (const std::exception& e) {
            log::error("request failed: {}", e.what());
            exchange_->send({500, "application/json; charset=utf-8", shared_->error_body(500, "internal error"), {}});
        }
        const bool done = co_await exchange_reply();
        if (done) {
            exchange_->mark_finished();
        } else {
            exchange_->mark_gone();
        }
        exchange_ = nullptr;
        if (!done) {
            break;
        }
        if (!keep_ || shared_->stopping) {
            co_await linger();
            break;
        }
    }
    beast::error_code ec;
    stream_.socket().close(ec);
}

asio::awaitable<Session::Read> Session::read_request() {
    const HttpOptions& options = shared_->options;
    bhttp::request_parser<bhttp::string_body> parser;
    parser.header_limit(static_cast<std::uint32_t>(options.max_header_bytes));
    parser.body_limit(options.max_body_bytes);
    if (buffer_.size() == 0) {
        stream_.expires_after(std::chrono::seconds(between_requests_ ? options.keep_alive_s : options.head_timeout_s));
        const auto [ec, n] = co_await stream_.async_read_some(buffer_.prepare(4096), kAwait);
        if (ec) {
            co_return Read::kClose;
        }
        buffer_.commit(n);
    }
    // One deadline for the whole head and one for the whole body: a client that drips bytes gains nothing.
    stream_.expires_after(std::chrono::seconds(options.head_timeout_s));
    auto [ec, n] = co_await bhttp::async_read_header(stream_, buffer_, parser, kAwait);
    if (!ec && !parser.is_done()) {
        if (beast::iequals(parser.get()[bhttp::field::expect], "100-continue")) {
            co_await write_all("HTTP/1.1 100 Continue\r\n\r\n");
        }
        // 16 KiB/s is slower than any link that could use the answer.
        const auto bytes = parser.content_length().value_or(options.max_body_bytes);
        const auto seconds = std::min<uint64_t>(30 + bytes / (16U << 10), static_cast<uint64_t>(options.timeout_s));
        stream_.expires_after(std::chrono::seconds(seconds));
        std::tie(ec, n) = co_await bhttp::async_read(stream_, buffer_, parser, kAwait);
    }
    if (!ec) {
        take_request(parser.release());
        co_return Read::kRequest;
    }
    if (ec == bhttp::error::body_limit) {
        co_await refuse(413, fmt::format("request body is larger than {} bytes", options.max_body_bytes));
        co_return Read::kRefused;
    }
    if (ec == bhttp::error::header_limit || ec == bhttp::error::buffer_overflow) {
        co_await refuse(431, fmt::format("request header is larger than {} bytes", options.max_header_bytes));
        co_return Read::kRefused;
    }
    if (ec == bhttp::error::end_of_stream || ec == bhttp::error::partial_message || ec == beast::error::timeout ||
        ec.category() != bhttp::make_error_code(bhttp::error::bad_method).category()) {
        co_return Read::kClose;
    }
    co_await refuse(400, "malformed HTTP request: " + ec.message());
    co_return Read::kRefused;
}

void Session::take_request(bhttp::request<bhttp::string_body> message) {
    request_ = std::make_shared<HttpRequest>();
    request_->method = std::string(message.method_string());
    const std::string_view target(message.target().data(), message.target().size());
    const size_t question = std::min(target.find('?'), target.size());
    request_->path = percent_decode(target.substr(0, question));
    request_->query = std::string(target.substr(std::min(question + 1, target.size())));
    for (const auto& field : message) {
        request_->headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    }
    request_->remote = remote_;
    http_minor_ = message.version() == 10 ? 0 : 1;
    keep_ = message.keep_alive();
    head_only_ = message.method() == bhttp::verb::head;
    request_->body = std::move(message.body());
}

/// Answers by itself what never becomes a request.
asio::awaitable<void> Session::refuse(int status, std::string message) {
    log::debug("{}: refused with {}: {}", remote_, status, message);
    HttpReply reply;
    reply.status = status;
    reply.body = shared_->error_body(status, message);
    keep_ = false;
    const std::string bytes = format_head(reply, head_options()) + reply.body;
    co_await write_all(bytes);
}

/// true: the reply is complete. false: the client has gone or the connection failed.
asio::awaitable<bool> Session::exchange_reply() {
    using namespace asio::experimental::awaitable_operators;
    // The write comes first: a reply that is ready goes out even to a client that has closed its sending side.
    const std::variant<bool, std::monostate> result = co_await (write_reply(exchange_) || watch_peer());
    co_return result.index() == 0 && std::get<0>(result);
}

asio::awaitable<bool> Session::write_reply(std::shared_ptr<Exchange> exchange) {
    Outbox& outbox = exchange->outbox();
    while (outbox.state() == Outbox::State::kOpen) {
        if (exchange->is_gone()) {
            co_return false;
        }
        co_await exchange->wake().async_wait(kAwait);
    }
    const HttpReply& reply = outbox.reply();
    keep_ = keep_ && reply.status < 400 && !shared_->stopping;
    if (outbox.state() != Outbox::State::kReply) {
        co_return co_await write_stream(std::move(exchange));
    }
    std::string bytes = format_head(reply, head_options());
    if (head_only_) {
        co_return co_await write_all(bytes);
    }
    if (reply.body.size() < kWritePiece) {
        bytes += reply.body;  // one packet where it fits
        co_return co_await write_all(bytes);
    }
    if (!co_await write_all(bytes)) {
        co_return false;
    }
    co_return co_await write_all(reply.body);
}

asio::awaitable<bool> Session::write_stream(std::shared_ptr<Exchange> exchange) {
    Outbox& outbox = exchange->outbox();
    const bool chunked = http_minor_ == 1;
    keep_ = keep_ && chunked;
    HeadOptions options = head_options();
    options.chunked = chunked;
    options.stream = true;
    const std::string head = format_head(outbox.reply(), options);
    if (!co_await write_all(head)) {
        co_return false;
    }
    while (!exchange->is_gone()) {
        if (outbox.has_pieces()) {
            const std::string data = outbox.take();
            const std::string bytes = chunked ? format_chunk(data) : data;
            if (!co_await write_all(bytes)) {
                co_return false;
            }
            outbox.sent();
        } else if (outbox.state() == Outbox::State::kEnded) {
            // No `||` here: g++ 12 runs a co_await on its right side whatever the left side is.
            if (!chunked) {
                co_return true;
            }
            co_return co_await write_all("0\r\n\r\n");
        } else {
            if (outbox.ping_s() > 0) {
                exchange->wake().expires_after(std::chrono::seconds(outbox.ping_s()));
            }
            const auto [ec] = co_await exchange->wake().async_wait(kAwait);
            if (!ec && !outbox.add(outbox.ping())) {
                co_return false;
            }
        }
    }
    co_return false;
}

/// Returns when the client has closed its side, or reset, or the socket has been closed here.
asio::awaitable<void> Session::watch_peer() {
    asio::steady_timer pause(stream_.get_executor());
    for (;;) {
        const auto [ec] = co_await stream_.socket().async_wait(tcp::socket::wait_read, kAwait);
        if (ec) {
            co_return;
        }
        pollfd state{stream_.socket().native_handle(), POLLIN | POLLRDHUP, 0};
        if (::poll(&state, 1, 0) < 0 || (state.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0) {
            close();  // also ends a write that waits for a reader who will never read
            co_return;
        }
        pause.expires_after(kPeerPause);
        co_await pause.async_wait(kAwait);
    }
}

asio::awaitable<bool> Session::write_all(std::string_view bytes) {
    const auto limit = std::min<std::chrono::seconds>(kWriteTimeout, std::chrono::seconds(shared_->options.timeout_s));
    while (!bytes.empty()) {
        const std::string_view piece = bytes.substr(0, kWritePiece);
        stream_.expires_after(limit);
        const auto [ec, n] = co_await asio::async_write(stream_, asio::buffer(piece.data(), piece.size()), kAwait);
        if (ec) {
            co_return false;
        }
        bytes.remove_prefix(n);
    }
    co_return true;
}

/// Closes so that the client can still read the reply: end our side, then read away what it sends for a while.
asio::awaitable<void> Session::linger() {
    beast::error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(kLingerTime);
    std::string sink(size_t{64} << 10, '\0');
    for (size_t total = 0; total < kLingerBytes && !shared_->stopping;) {
        const auto [ec, n] = co_await stream_.async_read_some(asio::buffer(sink), kAwait);
        if (ec) {
            break;
        }
        total += n;
    }
}

/// A connection above the cap: told so, and closed.
asio::awaitable<void> turn_away(std::shared_ptr<Shared> shared, tcp::socket socket) {
    ++shared->refusals;
    beast::tcp_stream stream(std::move(socket));
    stream.expires_after(std::chrono::seconds(1));
    HttpReply reply;
    reply.status = 503;
    reply.body = shared->error_body(503, "too many connections");
    reply.headers.emplace_back("Retry-After", "1");
    const std::string bytes = format_head(reply, {shared->options.server_name, 1, true, false, false}) + reply.body;
    co_await asio::async_write(stream, asio::buffer(bytes), kAwait);
    beast::error_code ignored;
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
    std::string sink(4096, '\0');
    for (int i = 0; i < 16; ++i) {
        const auto [ec, n] = co_await stream.async_read_some(asio::buffer(sink), kAwait);
        if (ec) {
            break;
        }
    }
    --shared->refusals;
}

asio::awaitable<void> accept_loop(std::shared_ptr<Shared> shared, std::shared_ptr<tcp::acceptor> acceptor) {
    while (!shared->stopping && acceptor->is_open()) {
        auto [ec, socket] = co_await acceptor->async_accept(kAwait);
        if (shared->stopping) {
            break;
        }
        if (ec) {
            // Out of descriptors, most likely: trying again at once would only spin.
            asio::steady_timer pause(shared->io, std::chrono::milliseconds(100));
            co_await pause.async_wait(kAwait);
            continue;
        }
        if (shared->sessions.size() >= static_cast<size_t>(shared->options.max_connections)) {
            if (shared->refusals < kMaxRefusals) {
                asio::co_spawn(shared->io, turn_away(shared, std::move(socket)), asio::detached);
            }
            continue;
        }
        auto session = std::make_shared<Session>(shared, std::move(socket));
        asio::co_spawn(
            shared->io, [session]() -> asio::awaitable<void> { return session->run(); }, asio::detached);
    }
}

class BeastServer final : public HttpServer {
  public:
    BeastServer() : shared_(std::make_shared<Shared>()), work_(asio::make_work_guard(shared_->io)) {}

    ~BeastServer() override { BeastServer::stop(0); }

    BeastServer(const BeastServer&) = delete;
    BeastServer& operator=(const BeastServer&) = delete;

    Status start(const HttpOptions& options, Handler handler) {
        shared_->options = options;
        shared_->handler = std::move(handler);
        for (const std::string& host : options.hosts) {
            FORESAY_CHECK_OK(listen(host, options.port));
        }
        for (const auto& acceptor : acceptors_) {
            asio::co_spawn(shared_->io, accept_loop(shared_, acceptor), asio::detached);
        }
        thread_ = std::thread([shared = shared_] { run_io(*shared); });
        return ok();
    }

    const std::vector<Endpoint>& endpoints() const override { return endpoints_; }

    void post(std::function<void()> task) override {
        if (!shared_->closed) {
            asio::post(shared_->io, std::move(task));
        }
    }

    void stop(int grace_s) override {
        const std::lock_guard<std::mutex> lock(stop_mutex_);
        if (!thread_.joinable()) {
            return;
        }
        auto grace = std::make_shared<asio::steady_timer>(shared_->io);
        asio::post(shared_->io, [this, grace, grace_s] {
            shared_->stopping = true;
            for (const auto& acceptor : acceptors_) {
                beast::error_code ec;
                acceptor->close(ec);
            }
            close_sessions(grace_s <= 0);
            grace->expires_after(std::chrono::seconds(grace_s));
            grace->async_wait([this](beast::error_code ec) {
                if (!ec) {
                    close_sessions(true);
                }
            });
            wait_for_last(grace);
        });
        thread_.join();
    }

    size_t n_connections() const override { return shared_->n_connections; }

  private:
    static void run_io(Shared& shared) {
        for (;;) {
            try {
                shared.io.run();
                break;
            } catch (const std::exception& e) {
                log::error("internal error on the I/O thread: {}", e.what());
            }
        }
        shared.closed = true;
    }

    void close_sessions(bool all) {
        const std::set<Session*> sessions = shared_->sessions;
        for (Session* session : sessions) {
            if (all || session->is_idle()) {
                session->close();
            }
        }
    }

    /// Lets the I/O thread end once no session is left; looks again every 10 ms, for the short while of a shutdown.
    void wait_for_last(std::shared_ptr<asio::steady_timer> grace) {
        if (shared_->sessions.empty()) {
            grace->cancel();
            work_.reset();
            return;
        }
        auto again = std::make_shared<asio::steady_timer>(shared_->io, std::chrono::milliseconds(10));
        again->async_wait([this, grace, again](beast::error_code) { wait_for_last(grace); });
    }

    Status listen(const std::string& host, int port) {
        const auto fail = [&](const beast::error_code& ec) {
            return error(Code::kIo, fmt::format("couldn't bind HTTP server socket, hostname: {}, port: {}", host, port),
                         {}, ec.message());
        };
        beast::error_code ec;
        asio::ip::address address = asio::ip::make_address(host, ec);
        if (ec) {
            tcp::resolver resolver(shared_->io);
            const auto found = resolver.resolve(host, "", tcp::resolver::passive, ec);
            if (ec || found.empty()) {
                return fail(ec);
            }
            address = found.begin()->endpoint().address();
        }
        const tcp::endpoint endpoint(address, static_cast<unsigned short>(port));
        auto acceptor = std::make_shared<tcp::acceptor>(shared_->io);
        acceptor->open(endpoint.protocol(), ec);
        if (!ec) {
            acceptor->set_option(tcp::acceptor::reuse_address(true),
                                 ec);  // not SO_REUSEPORT: a second server must fail
        }
        if (!ec && address.is_v6()) {
            acceptor->set_option(asio::ip::v6_only(true), ec);
        }
        if (!ec) {
            acceptor->bind(endpoint, ec);
        }
        if (!ec) {
            acceptor->listen(asio::socket_base::max_listen_connections, ec);
        }
        if (ec) {
            return fail(ec);
        }
        endpoints_.push_back({host, acceptor->local_endpoint(ec).port()});
        acceptors_.push_back(std::move(acceptor));
        return ok();
    }

    std::shared_ptr<Shared> shared_;
    asio::executor_work_guard<asio::io_context::executor_type> work_;
    std::vector<std::shared_ptr<tcp::acceptor>> acceptors_;
    std::vector<Endpoint> endpoints_;
    std::mutex stop_mutex_;
    std::thread thread_;  // guarded by stop_mutex_
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::create(const HttpOptions& options, Handler handler) {
    auto server = std::make_unique<BeastServer>();
    FORESAY_CHECK_OK(server->start(options, std::move(handler)));
    return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace foresay::http
