#include "segmax/io/json_texts.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/json_scanner.hpp"

namespace segmax {

namespace {

using json::is_digit;
using json::Scanner;

// As in io/records.py; of several names the first counts.
constexpr std::string_view kIdNames[] = {"id", "_id", "docid", "doc_id", "docno", "pid", "qid", "query_id"};
constexpr std::string_view kTextNames[] = {"text",    "contents", "content", "body",
                                           "passage", "abstract", "query",   "question"};
constexpr std::string_view kTitleNames[] = {"title", "headline"};
constexpr std::string_view kVectorNames[] = {"vector", "toks", "query_toks"};
constexpr std::size_t kLongestName = 8;
constexpr std::size_t kNoRank = std::numeric_limits<std::size_t>::max();

constexpr std::size_t kMostDigits = 18;   // of an id; Python writes larger numbers as it likes
constexpr std::size_t kMostBytes = 4096;  // of a member that is skipped: Python limits how long a number may be,
constexpr std::size_t kMostNested = 64;   // and how deeply objects may be nested

std::size_t rank_of(std::string_view name, std::span<const std::string_view> names) {
    const auto found = std::find(names.begin(), names.end(), name);
    return found == names.end() ? kNoRank : static_cast<std::size_t>(found - names.begin());
}

bool is_known(std::string_view name) {
    return rank_of(name, kIdNames) != kNoRank || rank_of(name, kTextNames) != kNoRank ||
           rank_of(name, kTitleNames) != kNoRank || rank_of(name, kVectorNames) != kNoRank;
}

/// Whether Python might take this name, which is not known, for a known one: it ignores case and blanks around it.
bool resembles_known(std::string_view name) {
    if (std::any_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
        return true;
    const auto is_blank = [](char c) { return static_cast<unsigned char>(c) <= 0x20; };
    while (!name.empty() && is_blank(name.front())) name.remove_prefix(1);
    while (!name.empty() && is_blank(name.back())) name.remove_suffix(1);
    if (name.size() > kLongestName) return false;
    std::string lower(name);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return is_known(lower);
}

/// One of the things that a record has, under the best of the names for it.
struct Member {
    std::size_t rank = kNoRank;
    bool is_valid = false;
    std::string_view value;
    std::string unescaped;
};

/// Reads one line; false where it is odd.
class Line {
public:
    explicit Line(PackedTexts& out) : out_(out) {}

    bool read(std::string_view line) {
        id_.rank = text_.rank = title_.rank = kNoRank;
        seen_ = 0;
        Scanner scan(line, 0);
        scan.skip_space();
        if (scan.at_end()) return true;
        if (!scan.take('{')) return false;
        do {
            if (!read_member(scan)) return false;
        } while (scan.take(','));
        if (!scan.take('}')) return false;
        scan.skip_space();
        return scan.at_end() && is_utf8(line) && keep();
    }

private:
    bool read_member(Scanner& scan) {
        scan.skip_space();
        const char* quote = scan.place();
        const std::string_view name = scan.string("a name", scratch_);
        if (name.data() != quote + 1) return false;  // with escapes
        scan.skip_space();
        if (!scan.take(':')) return false;
        scan.skip_space();
        const bool is_read = read_value(scan, name);
        scan.skip_space();
        return is_read;
    }

    bool read_value(Scanner& scan, std::string_view name) {
        std::size_t rank = rank_of(name, kTextNames);
        if (rank != kNoRank) return is_first(rank) && read_string(scan, rank, text_);
        rank = rank_of(name, kTitleNames);
        if (rank != kNoRank) return is_first(rank + 8) && read_string(scan, rank, title_);
        rank = rank_of(name, kIdNames);
        if (rank != kNoRank) return is_first(rank + 16) && read_id(scan, rank);
        return (is_known(name) || !resembles_known(name)) && skip(scan);
    }

    /// Whether this name is here for the first time; of two values, Python takes the last.
    bool is_first(std::size_t bit) {
        const std::uint32_t mask = 1U << bit;
        const bool first = (seen_ & mask) == 0;
        seen_ |= mask;
        return first;
    }

    bool read_string(Scanner& scan, std::size_t rank, Member& member) {
        if (scan.peek() != '"') {
            if (scan.peek() == 'n') return skip(scan);  // null: it is missing
            if (rank < member.rank) set_invalid(member, rank);
            return skip(scan);
        }
        const std::string_view value = scan.string("a string", scratch_);
        if (rank < member.rank) set(member, rank, value);
        return true;
    }

    bool read_id(Scanner& scan, std::size_t rank) {
        if (scan.peek() == '"') {
            const std::string_view value = scan.string("an id", scratch_);
            if (rank < id_.rank) set(id_, rank, value);
            if (id_.rank == rank) id_.is_valid = !value.empty();
            return true;
        }
        if (is_digit(scan.peek())) {
            const std::string_view value = scan.number_text("an id");
            if (rank < id_.rank) set(id_, rank, value);
            const bool is_whole = std::all_of(value.begin(), value.end(), is_digit) && value.size() <= kMostDigits;
            if (id_.rank == rank) id_.is_valid = is_whole;
            return value.size() <= kMostBytes;
        }
        if (rank < id_.rank) set_invalid(id_, rank);
        return skip(scan);
    }

    void set(Member& member, std::size_t rank, std::string_view value) {
        member.rank = rank;
        member.is_valid = true;
        if (value.data() == scratch_.data()) {
            std::swap(member.unescaped, scratch_);
            value = member.unescaped;
        }
        member.value = value;
    }

    static void set_invalid(Member& member, std::size_t rank) {
        member.rank = rank;
        member.is_valid = false;
    }

    static bool skip(Scanner& scan) {
        const char* first = scan.place();
        const bool is_string = scan.peek() == '"';
        scan.skip_value();
        const std::string_view value(first, static_cast<std::size_t>(scan.place() - first));
        if (is_string) return true;
        const auto nested = std::count_if(value.begin(), value.end(), [](char c) { return c == '[' || c == '{'; });
        return value.size() <= kMostBytes && static_cast<std::size_t>(nested) <= kMostNested;
    }

    bool keep() {
        if (text_.rank == kNoRank && title_.rank == kNoRank) return false;
        for (const Member* member : {&title_, &text_}) {
            const bool is_there = member->rank != kNoRank;
            if (is_there && !member->is_valid) return false;
            const std::string_view value = is_there ? member->value : std::string_view();
            out_.content.insert(out_.content.end(), value.begin(), value.end());
            out_.lengths.push_back(static_cast<std::uint32_t>(value.size()));
        }
        if (id_.rank != kNoRank) {
            if (!id_.is_valid) return false;
            out_.ids.add(id_.value);
        }
        const std::size_t num_texts = out_.lengths.size() / 2;
        return out_.ids.size() == (id_.rank == kNoRank ? 0 : num_texts);
    }

    PackedTexts& out_;
    Member id_;
    Member text_;
    Member title_;
    std::uint32_t seen_ = 0;  // a bit per name
    std::string scratch_;
};

}  // namespace

std::optional<PackedTexts> read_json_texts(std::string_view lines) {
    PackedTexts out;
    out.content.reserve(lines.size());
    Line line(out);
    while (!lines.empty()) {
        const auto* feed = static_cast<const char*>(std::memchr(lines.data(), '\n', lines.size()));
        const std::size_t length = feed == nullptr ? lines.size() : static_cast<std::size_t>(feed - lines.data());
        try {
            if (!line.read(lines.substr(0, length))) return std::nullopt;
        } catch (const InputError&) {
            return std::nullopt;
        }
        lines.remove_prefix(std::min(length + 1, lines.size()));
    }
    return out;
}

}  // namespace segmax
