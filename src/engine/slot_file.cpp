#include "engine/slot_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace foresay::engine {
namespace {

constexpr std::array<char, 8> kMagic{'F', 'O', 'R', 'E', 'S', 'L', 'O', 'T'};
constexpr uint32_t kVersion = 3;
constexpr uint64_t kMaxDraftBytes = uint64_t{1} << 34;

struct Header {
    std::array<char, 8> magic = kMagic;
    uint32_t version = kVersion;
    uint32_t n_layer = 0;
    uint64_t fingerprint = 0;
    uint32_t type_k = 0;
    uint32_t type_v = 0;
    uint32_t n_tokens = 0;
    int32_t n_pure = 0;
    uint64_t payload_bytes = 0;  ///< tokens and cells
    uint64_t draft_fingerprint = 0;
    uint64_t draft_bytes = 0;      ///< the drafter's state; the checksum follows
    uint64_t recurrent_bytes = 0;  ///< the model's recurrent state, before the drafter's
};

static_assert(sizeof(Header) == 72, "the header is written as it lies in memory");

class FileHandle {
  public:
    explicit FileHandle(int fd) : fd_(fd) {}

    ~FileHandle() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }

    FileHandle(const FileHandle&) = delete;
    FileHandle& operator=(const FileHandle&) = delete;

    int fd() const { return fd_; }

    bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

  private:
    int fd_;
};

using Hash = std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)>;

Hash make_hash() {
    Hash hash(XXH3_createState(), &XXH3_freeState);
    XXH3_64bits_reset(hash.get());
    return hash;
}

bool write_all(int fd, const void* data, size_t size) {
    const auto* at = static_cast<const char*>(data);
    while (size > 0) {
        const ssize_t n = ::write(fd, at, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        size -= static_cast<size_t>(n);
    }
    return true;
}

bool read_all(int fd, void* data, size_t size) {
    auto* at = static_cast<char*>(data);
    while (size > 0) {
        const ssize_t n = ::read(fd, at, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        size -= static_cast<size_t>(n);
    }
    return true;
}

Error io_error(std::string_view what, const std::string& path) {
    return error(errno == ENOENT ? Code::kNotFound : Code::kIo,
                 fmt::format("{} {}: {}", what, path, std::strerror(errno)));
}

Header header_for(uint64_t fingerprint, const memory::KvCache& kv, uint32_t n_tokens) {
    Header header;
    header.n_layer = static_cast<uint32_t>(kv.n_layer());
    header.fingerprint = fingerprint;
    int layer_with_cache = 0;
    while (layer_with_cache < kv.n_layer() && kv.k(layer_with_cache) == nullptr) {
        ++layer_with_cache;
    }
    const bool any = layer_with_cache < kv.n_layer();
    header.type_k = static_cast<uint32_t>(any ? kv.k(layer_with_cache)->dtype : DType::kF32);
    header.type_v = static_cast<uint32_t>(any ? kv.v(layer_with_cache)->dtype : DType::kF32);
    header.n_tokens = n_tokens;
    header.payload_bytes = uint64_t{n_tokens} * sizeof(vocab::TokenId);
    for (int layer = 0; layer < kv.n_layer(); ++layer) {
        for (const bool keys : {true, false}) {
            header.payload_bytes += kv.prefix_bytes(layer, keys, static_cast<int32_t>(n_tokens));
        }
    }
    return header;
}

Status write_body(int fd, const Header& header, const memory::KvCache& kv, int slot, const SlotState& state) {
    Hash hash = make_hash();
    const auto put = [&](const void* data, size_t size) {
        XXH3_64bits_update(hash.get(), data, size);
        return write_all(fd, data, size);
    };
    bool good = put(&header, sizeof(header)) && put(state.tokens.data(), state.tokens.size() * sizeof(vocab::TokenId));
    std::vector<std::byte> cells;
    for (int layer = 0; layer < kv.n_layer() && good; ++layer) {
        for (const bool keys : {true, false}) {
            cells.resize(kv.prefix_bytes(layer, keys, static_cast<int32_t>(header.n_tokens)));
            kv.read_prefix(slot, layer, keys, cells);
            good = good && put(cells.data(), cells.size());
        }
    }
    good = good && put(state.recurrent.data(), state.recurrent.size()) && put(state.draft.data(), state.draft.size());
    const uint64_t sum = XXH3_64bits_digest(hash.get());
    if (!good || !write_all(fd, &sum, sizeof(sum))) {
        return error(Code::kIo, std::strerror(errno));
    }
    return ok();
}

}  // namespace

uint64_t model_fingerprint(const gguf::File& file) {
    Hash hash = make_hash();
    const auto add = [&](const void* data, size_t size) { XXH3_64bits_update(hash.get(), data, size); };
    const uint64_t n_bytes = file.file_bytes();
    add(&n_bytes, sizeof(n_bytes));
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        add(tensor.name.data(), tensor.name.size());
        const auto type = static_cast<uint32_t>(tensor.type);
        add(&type, sizeof(type));
        add(tensor.ne.data(), tensor.ne.size() * sizeof(tensor.ne[0]));
        // Fine-tunes of one model differ in their weights only: a sample of each tensor tells them apart.
        constexpr size_t kSample = 256;
        const size_t n = std::min(kSample, tensor.data.size());
        add(tensor.data.data() + (tensor.data.size() - n) / 2, n);
    }
    return XXH3_64bits_digest(hash.get());
}

Result<uint64_t> write_slot_file(const std::string& path, const SlotFileOwner& owner, const memory::KvCache& kv,
                                 int slot, const SlotState& state) {
    static std::atomic<uint64_t> counter{0};
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    const std::string temporary = fmt::format("{}.foresay-{}-{}.tmp", folder, ::getpid(), counter++);
    FileHandle file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.fd() < 0) {
        return io_error("cannot create", temporary);
    }
    Header header = header_for(owner.model, kv, static_cast<uint32_t>(state.tokens.size()));
    header.n_pure = state.n_pure;
    header.draft_fingerprint = owner.draft;
    header.draft_bytes = state.draft.size();
    header.recurrent_bytes = state.recurrent.size();
    Status written = write_body(file.fd(), header, kv, slot, state);
    if (written.has_value() && (!file.close() || ::rename(temporary.c_str(), path.c_str()) != 0)) {
        written = Status(error(Code::kIo, std::strerror(errno)));
    }
    if (!written.has_value()) {
        ::unlink(temporary.c_str());
        return error(Code::kIo, fmt::format("cannot write {}: {}", path, written.error().message));
    }
    return sizeof(header) + header.payload_bytes + header.recurrent_bytes + header.draft_bytes + sizeof(uint64_t);
}

Result<SlotState> read_slot_file(const std::string& path, const SlotFileOwner& owner, memory::KvCache& kv, int slot,
                                 uint64_t* n_read) {
    const auto bad = [&](std::string_view why) { return error(Code::kBadFile, fmt::format("{}: {}", path, why)); };
    const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.fd() < 0) {
        return io_error("cannot open", path);
    }

    struct stat info {};

    if (::fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode)) {
        return bad("not a regular file");
    }
    Header header;
    if (!read_all(file.fd(), &header, sizeof(header)) || header.magic != kMagic) {
        return bad("not a slot file");
    }
    if (header.version != kVersion) {
        return bad(fmt::format("version {} is unknown, this is version {}", header.version, kVersion));
    }
    if (header.fingerprint != owner.model) {
        return bad("was saved with another model");
    }
    if (header.n_tokens > static_cast<uint32_t>(kv.n_ctx_slot())) {
        return error(Code::kCapacity, fmt::format("{}: holds {} tokens, a slot has room for {}", path, header.n_tokens,
                                                  kv.n_ctx_slot()));
    }
    const Header wanted = header_for(owner.model, kv, header.n_tokens);
    if (header.n_layer != wanted.n_layer || header.type_k != wanted.type_k || header.type_v != wanted.type_v ||
        header.payload_bytes != wanted.payload_bytes) {
        return bad("was saved with other cache types");
    }
    const auto file_bytes = static_cast<uint64_t>(info.st_size);
    if (header.draft_bytes > std::min(file_bytes, kMaxDraftBytes)) {
        return bad(fmt::format("{} bytes of a drafter's state can't be", header.draft_bytes));
    }
    if (header.recurrent_bytes > owner.max_recurrent_bytes) {
        return bad(fmt::format("{} bytes of recurrent state can't be", header.recurrent_bytes));
    }
    *n_read = sizeof(header) + header.payload_bytes + header.recurrent_bytes + header.draft_bytes + sizeof(uint64_t);
    if (file_bytes != *n_read) {
        return bad(fmt::format("has {} bytes, {} are expected", info.st_size, *n_read));
    }
    Hash hash = make_hash();
    XXH3_64bits_update(hash.get(), &header, sizeof(header));
    const auto get = [&](void* data, size_t size) {
        const bool good = read_all(file.fd(), data, size);
        XXH3_64bits_update(hash.get(), data, size);
        return good;
    };
    SlotState state;
    state.n_pure = std::clamp(header.n_pure, 0, static_cast<int32_t>(header.n_tokens));
    state.tokens.resize(header.n_tokens);
    bool good = get(state.tokens.data(), state.tokens.size() * sizeof(vocab::TokenId));
    std::vector<std::byte> cells;
    for (int layer = 0; layer < kv.n_layer() && good; ++layer) {
        for (const bool keys : {true, false}) {
            cells.resize(kv.prefix_bytes(layer, keys, static_cast<int32_t>(header.n_tokens)));
            good = good && get(cells.data(), cells.size());
            kv.write_prefix(slot, layer, keys, cells);
        }
    }
    state.recurrent.resize(good ? header.recurrent_bytes : 0);
    good = good && get(state.recurrent.data(), state.recurrent.size());
    // Read even when it is another drafter's: the checksum covers it.
    state.draft.resize(good ? header.draft_bytes : 0);
    good = good && get(state.draft.data(), state.draft.size());
    if (header.draft_fingerprint != owner.draft) {
        state.draft.clear();
    }
    uint64_t sum = 0;
    if (!good || !read_all(file.fd(), &sum, sizeof(sum))) {
        return bad("ends too early");
    }
    if (sum != XXH3_64bits_digest(hash.get())) {
        return bad("is damaged: its checksum does not match");
    }
    if (std::any_of(state.tokens.begin(), state.tokens.end(), [&](auto id) { return id < 0 || id >= owner.n_vocab; })) {
        return bad("holds tokens that the vocabulary lacks");
    }
    return state;
}

}  // namespace foresay::engine
