#include "gguf/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "gguf/cursor.h"
#include "tensor/dtype.h"

namespace foresay::gguf {

namespace {

constexpr uint64_t kMaxStringBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxArrayElements = uint64_t{1} << 30;
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxTensorNameBytes = 63;       // the reference's limit
constexpr uint32_t kMaxAlignment = 1u << 20;       // rounding up by it can't wrap
constexpr uint64_t kMinKeyRecord = 8 + 1 + 4 + 1;  // one-byte key, one-byte value
constexpr uint64_t kMinTensorRecord = 8 + 1 + 4 + 8 + 4 + 8;
// A first guess that saves regrowth for real files and costs nothing where the count is a lie.
constexpr uint64_t kMaxReserve = 4096;

std::string_view as_text(std::span<const std::byte> raw) {
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
}

/// Reads one file front to back. Members hold what the messages need: which file, which record.
class Parser {
  public:
    Parser(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), cursor_(bytes), file_(file) {}

    Result<Contents> run(int shard) {
        FORESAY_CHECK_OK(header());
        FORESAY_CHECK_OK(metadata());
        FORESAY_CHECK_OK(alignment());
        FORESAY_CHECK_OK(tensor_infos(shard));
        FORESAY_CHECK_OK(place_tensors());
        return std::move(out_);
    }

  private:
    Status header();
    Status metadata();
    Status value(Value* out);
    Status array(Value* out);
    Status alignment();
    Status tensor_infos(int shard);
    Status tensor_shape(TensorInfo* out);
    Status tensor_bytes(TensorInfo* out);
    Status place_tensors();
    Status check_overlap(std::vector<size_t> by_offset);

    /// A length-prefixed string of at most `limit` bytes. what: for the message.
    Status text(std::string_view what, uint64_t limit, std::string_view* out);

    Error bad(std::string message) const { return error(Code::kBadFile, std::move(message), place_); }

    /// The read position has met the end of the file. Says how far the file goes: truncated downloads are the usual
    /// cause.
    Error ended(std::string_view what) const {
        return error(Code::kBadFile, fmt::format("the file ends inside {} (it has {} bytes)", what, bytes_.size()),
                     place_, "the file is cut or damaged; fetch it again");
    }

    std::span<const std::byte> bytes_;
    Cursor cursor_;
    const std::string& file_;
    std::string place_;  ///< where of the errors: file and record
    uint64_t n_values_ = 0;
    uint64_t n_tensors_ = 0;
    std::vector<uint64_t> offsets_;  ///< of the tensors, from the start of the data section
    Contents out_;
};

Status Parser::header() {
    place_ = fmt::format("{}: header", file_);
    uint32_t magic = 0;
    uint32_t version = 0;
    int64_t n_tensors = 0;
    int64_t n_values = 0;
    if (!cursor_.read(&magic)) {
        return ended("the magic number");
    }
    if (magic != 0x46554747u) {
        return error(Code::kBadFile, fmt::format("not a GGUF file: it starts with 0x{:08x}, not \"GGUF\"", magic),
                     place_);
    }
    if (!cursor_.read(&version)) {
        return ended("the version");
    }
    if (version != 0 && (version & 0xffffu) == 0) {
        return error(Code::kUnsupported, "big-endian GGUF is not supported", place_,
                     "convert the file to little-endian");
    }
    if (version == 1) {
        return error(Code::kUnsupported, "GGUF version 1 is not supported", place_, "convert the model again");
    }
    if (version != 2 && version != 3) {
        return error(Code::kUnsupported, fmt::format("GGUF version {} is not supported, only 2 and 3", version),
                     place_);
    }
    if (!cursor_.read(&n_tensors) || !cursor_.read(&n_values)) {
        return ended("the counts");
    }
    // A record has a least size, so the rest of the file bounds both counts.
    if (n_values < 0 || static_cast<uint64_t>(n_values) > cursor_.left() / kMinKeyRecord) {
        return bad(fmt::format("{} metadata records can't fit in {} bytes", n_values, cursor_.left()));
    }
    if (n_tensors < 0 || static_cast<uint64_t>(n_tensors) > cursor_.left() / kMinTensorRecord) {
        return bad(fmt::format("{} tensors can't fit in {} bytes", n_tensors, cursor_.left()));
    }
    n_tensors_ = static_cast<uint64_t>(n_tensors);
    n_values_ = static_cast<uint64_t>(n_values);
    out_.version = version;
    return ok();
}

Status Parser::text(std::string_view what, uint64_t limit, std::string_view* out) {
    uint64_t length = 0;
    if (!cursor_.read(&length)) {
        return ended(fmt::format("the length of {}", what));
    }
    if (length > limit) {
        return bad(fmt::format("{} has {} bytes, more than {}", what, length, limit));
    }
    std::span<const std::byte> raw;
    if (!cursor_.take(length, &raw)) {
        return ended(fmt::format("{} of {} bytes", what, length));
    }
    *out = as_text(raw);
    return ok();
}

Status Parser::metadata() {
    out_.values.reserve(static_cast<size_t>(std::min(n_values_, kMaxReserve)));
    std::vector<std::string_view> keys;
    keys.reserve(static_cast<size_t>(std::min(n_values_, kMaxReserve)));
    for (uint64_t i = 0; i < n_values_; ++i) {
        place_ = fmt::format("{}: metadata record {} at byte {}", file_, i, cursor_.at());
        Value v;
        FORESAY_CHECK_OK(text("the key", kMaxKeyBytes, &v.key));
        if (v.key.empty()) {
            return bad("the key is empty");
        }
        place_ = key_place(file_, v.key);
        if (v.key.find('\0') != std::string_view::npos) {
            return bad("the key holds a NUL byte");
        }
        FORESAY_CHECK_OK(value(&v));
        keys.push_back(v.key);
        out_.values.push_back(v);
    }
    out_.keys = NameIndex(std::move(keys));
    if (const auto i = out_.keys.duplicate()) {
        place_ = key_place(file_, out_.values[*i].key);
        return bad("the key occurs twice");
    }
    return ok();
}

Status Parser::value(Value* out) {
    int32_t type = 0;
    if (!cursor_.read(&type)) {
        return ended("the value's type");
    }
    if (type < 0 || type > static_cast<int32_t>(ValueType::kF64)) {
        return bad(fmt::format("value type {} is unknown", type));
    }
    out->type = static_cast<ValueType>(type);
    if (out->type == ValueType::kArray) {
        return array(out);
    }
    if (out->type == ValueType::kString) {
        std::string_view content;
        FORESAY_CHECK_OK(text("the string", kMaxStringBytes, &content));
        out->raw = {reinterpret_cast<const std::byte*>(content.data()), content.size()};
        return ok();
    }
    if (!cursor_.take(value_size(out->type), &out->raw)) {
        return ended("the value");
    }
    if (out->type == ValueType::kBool && load<uint8_t>(out->raw.data()) > 1) {
        return bad(fmt::format("a bool is {}, not 0 or 1", load<uint8_t>(out->raw.data())));
    }
    return ok();
}

Status Parser::array(Value* out) {
    int32_t element = 0;
    if (!cursor_.read(&element) || !cursor_.read(&out->n)) {
        return ended("the array's head");
    }
    if (element == static_cast<int32_t>(ValueType::kArray)) {
        return bad("arrays of arrays are not allowed");
    }
    if (element < 0 || element > static_cast<int32_t>(ValueType::kF64)) {
        return bad(fmt::format("array element type {} is unknown", element));
    }
    out->element = static_cast<ValueType>(element);
    const bool strings = out->element == ValueType::kString;
    const size_t element_bytes = strings ? sizeof(uint64_t) : value_size(out->element);
    if (out->n > kMaxArrayElements) {
        return bad(fmt::format("an array of {} elements is too long", out->n));
    }
    if (out->n > cursor_.left() / element_bytes) {
        return bad(fmt::format("an array of {} elements can't fit in {} bytes", out->n, cursor_.left()));
    }
    if (!strings) {
        if (!cursor_.take(out->n * element_bytes, &out->raw)) {
            return ended("the array");
        }
        const auto is_bad_bool = [](std::byte b) { return b > std::byte{1}; };
        if (out->element == ValueType::kBool && std::any_of(out->raw.begin(), out->raw.end(), is_bad_bool)) {
            return bad("a bool of the array is neither 0 nor 1");
        }
        return ok();
    }
    // The strings stay where they are; walking them once proves that every later walk ends inside the file.
    const size_t begin = cursor_.at();
    for (uint64_t i = 0; i < out->n; ++i) {
        uint64_t length = 0;
        std::span<const std::byte> raw;
        if (!cursor_.read(&length)) {
            return ended(fmt::format("string {} of the array", i));
        }
        if (length > kMaxStringBytes) {
            return bad(fmt::format("string {} of the array has {} bytes, more than {}", i, length, kMaxStringBytes));
        }
        if (!cursor_.take(length, &raw)) {
            return ended(fmt::format("string {} of the array, of {} bytes", i, length));
        }
    }
    out->raw = bytes_.subspan(begin, cursor_.at() - begin);
    return ok();
}

Status Parser::alignment() {
    const Value* v = out_.find("general.alignment");
    if (v == nullptr) {
        return ok();
    }
    place_ = key_place(file_, v->key);
    if (v->type != ValueType::kU32) {
        return bad(fmt::format("the alignment has type {}, not uint32", value_type_name(v->type)));
    }
    const auto a = load<uint32_t>(v->raw.data());
    if (a == 0 || (a & (a - 1)) != 0) {
        return bad(fmt::format("the alignment is {}, not a power of two", a));
    }
    if (a > kMaxAlignment) {
        return bad(fmt::format("the alignment is {}, more than {}", a, kMaxAlignment));
    }
    out_.alignment = a;
    return ok();
}

Status Parser::tensor_infos(int shard) {
    out_.tensors.reserve(static_cast<size_t>(std::min(n_tensors_, kMaxReserve)));
    for (uint64_t i = 0; i < n_tensors_; ++i) {
        place_ = fmt::format("{}: tensor record {} at byte {}", file_, i, cursor_.at());
        TensorInfo info;
        std::string_view name;
        FORESAY_CHECK_OK(text("the tensor's name", kMaxTensorNameBytes, &name));
        if (name.empty()) {
            return bad("the tensor's name is empty");
        }
        place_ = tensor_place(file_, name);
        if (name.find('\0') != std::string_view::npos) {
            return bad("the tensor's name holds a NUL byte");
        }
        info.name = name;
        info.shard = shard;
        FORESAY_CHECK_OK(tensor_shape(&info));
        uint64_t offset = 0;
        if (!cursor_.read(&info.type) || !cursor_.read(&offset)) {
            return ended("the tensor's type and offset");
        }
        FORESAY_CHECK_OK(tensor_bytes(&info));
        offsets_.push_back(offset);
        out_.tensors.push_back(std::move(info));
    }
    return ok();
}

Status Parser::tensor_shape(TensorInfo* out) {
    uint32_t n_dims = 0;
    if (!cursor_.read(&n_dims)) {
        return ended("the number of dimensions");
    }
    if (n_dims < 1 || n_dims > out->ne.size()) {
        return bad(fmt::format("{} dimensions, where 1 to {} are allowed", n_dims, out->ne.size()));
    }
    out->n_dims = static_cast<int>(n_dims);
    int64_t elements = 1;
    for (uint32_t i = 0; i < n_dims; ++i) {
        if (!cursor_.read(&out->ne[i])) {
            return ended("the dimensions");
        }
        if (out->ne[i] < 1) {
            return bad(fmt::format("dimension {} is {}, not positive", i, out->ne[i]));
        }
        if (!checked_mul(elements, out->ne[i], &elements)) {
            return bad("the number of elements exceeds 2^63 - 1");
        }
    }
    return ok();
}

Status Parser::tensor_bytes(TensorInfo* out) {
    int64_t block = 0;
    size_t block_bytes = 0;
    if (!gguf_type_size(out->type, &block, &block_bytes)) {
        const std::string_view name = gguf_type_name(out->type);
        if (name.empty()) {
            return error(Code::kUnsupported, fmt::format("tensor type {} is unknown", out->type), place_);
        }
        return error(Code::kUnsupported, fmt::format("tensor type {} ({}) is retired", out->type, name), place_,
                     "quantise the model again");
    }
    if (out->ne[0] % block != 0) {
        return bad(fmt::format("rows of {} elements are not a multiple of the block of {} of type {} ({})", out->ne[0],
                               block, gguf_type_name(out->type), out->type));
    }
    // The product of the dimensions was found to fit while they were read.
    const int64_t blocks = out->ne[0] / block * out->ne[1] * out->ne[2] * out->ne[3];
    if (!checked_mul(static_cast<size_t>(blocks), block_bytes, &out->bytes) ||
        out->bytes > std::numeric_limits<size_t>::max() - kMaxAlignment) {
        return bad("the tensor's size in bytes exceeds 64 bits");
    }
    return ok();
}

Status Parser::place_tensors() {
    if (out_.tensors.empty()) {
        return ok();  // a file of metadata only may end without padding
    }
    const size_t data_start = round_up(cursor_.at(), out_.alignment);
    if (data_start > bytes_.size()) {
        place_ = fmt::format("{}: data section", file_);
        return ended("the padding before the tensor data");
    }
    const size_t data_bytes = bytes_.size() - data_start;
    std::vector<size_t> by_offset;
    by_offset.reserve(out_.tensors.size());
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
        TensorInfo& tensor = out_.tensors[i];
        const uint64_t offset = offsets_[i];
        place_ = tensor_place(file_, tensor.name);
        if (offset % out_.alignment != 0) {
            return bad(fmt::format("offset {} is not a multiple of the alignment {}", offset, out_.alignment));
        }
        if (offset > data_bytes || tensor.bytes > data_bytes - offset) {
            return error(Code::kBadFile,
                         fmt::format("{} bytes at offset {} reach past the end of the tensor data ({} bytes)",
                                     tensor.bytes, offset, data_bytes),
                         place_, "the file is cut or damaged; fetch it again");
        }
        tensor.data = bytes_.subspan(data_start + static_cast<size_t>(offset), tensor.bytes);
        by_offset.push_back(i);
    }
    return check_overlap(std::move(by_offset));
}

Status Parser::check_overlap(std::vector<size_t> by_offset) {
    std::sort(by_offset.begin(), by_offset.end(), [&](size_t a, size_t b) { return offsets_[a] < offsets_[b]; });
    for (size_t i = 1; i < by_offset.size(); ++i) {
        const TensorInfo& before = out_.tensors[by_offset[i - 1]];
        const TensorInfo& after = out_.tensors[by_offset[i]];
        if (after.data.data() < before.data.data() + before.bytes) {
            place_ = tensor_place(file_, after.name);
            return bad(fmt::format("its data overlaps that of tensor '{}'", printable(before.name)));
        }
    }
    return ok();
}

}  // namespace

NameIndex::NameIndex(std::vector<std::string_view> names) {
    entries_.reserve(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
        entries_.push_back({names[i], i});
    }
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
        return a.name != b.name ? a.name < b.name : a.position < b.position;
    });
}

std::optional<size_t> NameIndex::find(std::string_view name) const {
    const auto it = std::lower_bound(entries_.begin(), entries_.end(), name,
                                     [](const Entry& entry, std::string_view wanted) { return entry.name < wanted; });
    if (it == entries_.end() || it->name != name) {
        return std::nullopt;
    }
    return it->position;
}

std::optional<size_t> NameIndex::duplicate() const {
    for (size_t i = 1; i < entries_.size(); ++i) {
        if (entries_[i].name == entries_[i - 1].name) {
            return entries_[i].position;
        }
    }
    return std::nullopt;
}

const Value* Contents::find(std::string_view key) const {
    const auto i = keys.find(key);
    return i ? &values[*i] : nullptr;
}

Result<Contents> parse(std::span<const std::byte> bytes, const std::string& name, int shard) {
    return Parser(bytes, name).run(shard);
}

}  // namespace foresay::gguf
