#include "gguf/mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

namespace foresay::gguf {

namespace {

Error system_failure(std::string_view what, const std::string& path, int number) {
    // system_category().message() instead of strerror: the latter isn't thread safe.
    return error(number == ENOENT   ? Code::kNotFound
                 : number == ENOMEM ? Code::kOutOfMemory
                                    : Code::kIo,
                 fmt::format("{}: {}", what, std::system_category().message(number)), path);
}

/// Closes the descriptor on every way out; the mapping doesn't need it.
struct Descriptor {
    int fd;

    ~Descriptor() { close(fd); }
};

}  // namespace

Result<Mapping> Mapping::map(const std::string& path) {
    // O_NONBLOCK: opening a FIFO must fail the check below, not wait for a writer. It has no effect on regular files.
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return system_failure("can't open the file", path, errno);
    }
    const Descriptor descriptor{fd};

    struct stat status {};

    if (fstat(fd, &status) != 0) {
        return system_failure("can't read the file's size", path, errno);
    }
    if (!S_ISREG(status.st_mode)) {
        return error(Code::kIo, S_ISDIR(status.st_mode) ? "this is a folder, not a file" : "this is not a regular file",
                     path);
    }
    if (status.st_size <= 0) {
        return error(Code::kBadFile, "the file is empty", path);
    }
    if (static_cast<uint64_t>(status.st_size) > static_cast<uint64_t>(std::numeric_limits<ptrdiff_t>::max())) {
        return error(Code::kBadFile, fmt::format("the file has {} bytes, more than can be mapped", status.st_size),
                     path);
    }
    const auto size = static_cast<size_t>(status.st_size);
    void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
        return system_failure(fmt::format("can't map the file of {} bytes", size), path, errno);
    }
    return Mapping({static_cast<const std::byte*>(address), size});
}

Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
}

Mapping::~Mapping() {
    if (!bytes_.empty()) {
        munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    }
}

void Mapping::drop(std::span<const std::byte> part) const {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    // Inwards: the first and last page may hold a neighbour's bytes, which are still needed.
    const auto begin = reinterpret_cast<uintptr_t>(part.data());
    const uintptr_t first = (begin + page - 1) / page * page;
    const uintptr_t last = reinterpret_cast<uintptr_t>(part.data() + part.size()) / page * page;
    if (first < last) {
        madvise(const_cast<std::byte*>(part.data()) + (first - begin), last - first, MADV_DONTNEED);
    }
}

}  // namespace foresay::gguf
