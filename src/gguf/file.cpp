// File: opening, shards, lookup. The typed getters are in values.cpp, the format in parse.cpp.
#include <fmt/format.h>

#include <new>

#include "base/assert.h"
#include "gguf/impl.h"
#include "gguf/mapping.h"

namespace foresay::gguf {

namespace {

/// The name of shard i of n by the format's rule; shards count from one in names.
std::string shard_suffix(int64_t i, int64_t n) {
    return fmt::format("-{:05}-of-{:05}.gguf", i + 1, n);
}

/// What a file says about the set of shards that it belongs to.
struct SplitKeys {
    int64_t no = 0;
    int64_t count = 1;
    int64_t n_tensors = 0;
};

Result<int64_t> split_key(const Contents& contents, const std::string& file, std::string_view key) {
    const Value* value = contents.find(key);
    if (value == nullptr) {
        return error(Code::kBadFile, "a shard of a split model lacks this key", key_place(file, key));
    }
    return integer_of(*value, file);
}

/// count <= 1: not split, and the other fields mean nothing.
Result<SplitKeys> split_keys(const Contents& contents, const std::string& file) {
    SplitKeys keys;
    const Value* count = contents.find("split.count");
    if (count == nullptr) {
        return keys;
    }
    FORESAY_TRY(keys.count, integer_of(*count, file));
    if (keys.count <= 1) {
        return keys;
    }
    if (keys.count > 65535) {  // a u16 in the format: bounds the number of files that are opened
        return error(Code::kBadFile, fmt::format("{} shards are too many", keys.count), key_place(file, "split.count"));
    }
    FORESAY_TRY(keys.no, split_key(contents, file, "split.no"));
    FORESAY_TRY(keys.n_tensors, split_key(contents, file, "split.tensors.count"));
    return keys;
}

Result<std::string> shard_prefix(const std::string& path, const SplitKeys& keys) {
    if (keys.no != 0) {
        return error(Code::kInvalidArgument,
                     fmt::format("this is shard {} of {}, not the first", keys.no + 1, keys.count), path,
                     fmt::format("open the file that ends with '{}'", shard_suffix(0, keys.count)));
    }
    const std::string suffix = shard_suffix(0, keys.count);
    if (!path.ends_with(suffix)) {
        return error(Code::kBadFile,
                     fmt::format("the first of {} shards must have a name that ends with '{}'", keys.count, suffix),
                     path, "rename the shards; the others are found by their names");
    }
    return path.substr(0, path.size() - suffix.size());
}

Status add_shard(File::Impl* impl, const std::string& prefix, int64_t i, const SplitKeys& first) {
    const std::string path = prefix + shard_suffix(i, first.count);
    auto mapping = Mapping::map(path);
    if (!mapping) {
        Error failure = std::move(mapping).error();
        failure.message = fmt::format("shard {} of {} can't be read: {}", i + 1, first.count, failure.message);
        return failure;
    }
    FORESAY_TRY(Contents contents, parse(mapping->bytes(), path, static_cast<int>(i)));
    FORESAY_TRY(const SplitKeys keys, split_keys(contents, path));
    if (keys.count != first.count) {
        return error(Code::kBadFile,
                     fmt::format("the shard says it is one of {}, the first shard says {}", keys.count, first.count),
                     key_place(path, "split.count"));
    }
    if (keys.no != i) {
        return error(Code::kBadFile, fmt::format("the shard's number is {}, by its name it should be {}", keys.no, i),
                     key_place(path, "split.no"));
    }
    impl->bytes += mapping->bytes().size();
    impl->mappings.push_back(std::move(*mapping));
    for (TensorInfo& tensor : contents.tensors) {
        impl->contents.tensors.push_back(std::move(tensor));
    }
    impl->shard_paths.push_back(path);
    return ok();
}

Status add_other_shards(File::Impl* impl) {
    FORESAY_TRY(const SplitKeys keys, split_keys(impl->contents, impl->shard_paths[0]));
    if (keys.count <= 1) {
        return ok();
    }
    if (impl->mappings.empty()) {
        return error(Code::kUnsupported, "a split model can't be read from memory", impl->shard_paths[0]);
    }
    FORESAY_TRY(const std::string prefix, shard_prefix(impl->shard_paths[0], keys));
    for (int64_t i = 1; i < keys.count; ++i) {
        FORESAY_CHECK_OK(add_shard(impl, prefix, i, keys));
    }
    if (static_cast<int64_t>(impl->contents.tensors.size()) != keys.n_tensors) {
        return error(
            Code::kBadFile,
            fmt::format("{} tensors are announced, the shards hold {}", keys.n_tensors, impl->contents.tensors.size()),
            key_place(impl->shard_paths[0], "split.tensors.count"));
    }
    return ok();
}

/// Parses the first file and whatever belongs to it. bytes: of the first file.
Status load(File::Impl* impl, std::span<const std::byte> bytes) {
    FORESAY_TRY(impl->contents, parse(bytes, impl->shard_paths[0], 0));
    impl->bytes = bytes.size();
    FORESAY_CHECK_OK(add_other_shards(impl));
    std::vector<std::string_view> names;
    names.reserve(impl->contents.tensors.size());
    for (const TensorInfo& tensor : impl->contents.tensors) {
        names.emplace_back(tensor.name);
    }
    impl->tensor_names = NameIndex(std::move(names));
    if (const auto i = impl->tensor_names.duplicate()) {
        const TensorInfo& tensor = impl->contents.tensors[*i];
        return error(Code::kBadFile, "a tensor of this name occurs twice",
                     tensor_place(impl->shard_paths[static_cast<size_t>(tensor.shard)], tensor.name));
    }
    return ok();
}

Error out_of_memory(const std::string& path, size_t bytes) {
    return error(Code::kOutOfMemory, fmt::format("no memory for the table of contents of a file of {} bytes", bytes),
                 path);
}

}  // namespace

File::File(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

File::~File() = default;

Result<std::shared_ptr<const File>> File::open(const std::string& path) {
    size_t bytes = 0;
    try {
        auto impl = std::make_unique<Impl>();
        FORESAY_TRY(Mapping mapping, Mapping::map(path));
        bytes = mapping.bytes().size();
        impl->shard_paths.push_back(path);
        impl->mappings.push_back(std::move(mapping));
        FORESAY_CHECK_OK(load(impl.get(), impl->mappings[0].bytes()));
        return std::shared_ptr<const File>(std::make_shared<File>(std::move(impl)));
    } catch (const std::bad_alloc&) {
        return out_of_memory(path, bytes);
    }
}

Result<std::shared_ptr<const File>> File::from_bytes(std::span<const std::byte> bytes, std::string name) {
    try {
        auto impl = std::make_unique<Impl>();
        impl->shard_paths.push_back(name);
        FORESAY_CHECK_OK(load(impl.get(), bytes));
        return std::shared_ptr<const File>(std::make_shared<File>(std::move(impl)));
    } catch (const std::bad_alloc&) {
        return out_of_memory(name, bytes.size());
    }
}

const std::string& File::path() const {
    return impl_->shard_paths[0];
}

uint32_t File::version() const {
    return impl_->contents.version;
}

size_t File::file_bytes() const {
    return impl_->bytes;
}

int File::n_shards() const {
    return static_cast<int>(impl_->shard_paths.size());
}

size_t File::alignment() const {
    return impl_->contents.alignment;
}

std::span<const Value> File::values() const {
    return impl_->contents.values;
}

const Value* File::find(std::string_view key) const {
    return impl_->contents.find(key);
}

std::span<const TensorInfo> File::tensors() const {
    return impl_->contents.tensors;
}

const TensorInfo* File::tensor(std::string_view name) const {
    const auto i = impl_->tensor_names.find(name);
    return i ? &impl_->contents.tensors[*i] : nullptr;
}

void File::drop_pages(std::span<const std::byte> bytes) const {
    for (const Mapping& mapping : impl_->mappings) {
        const auto all = mapping.bytes();
        if (bytes.data() >= all.data() && bytes.data() + bytes.size() <= all.data() + all.size()) {
            mapping.drop(bytes);
            return;
        }
    }
}

}  // namespace foresay::gguf
