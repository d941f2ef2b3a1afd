#include "segmax/text/words.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "segmax/io/errors.hpp"
#include "segmax/io/utf8.hpp"

namespace segmax {

namespace {

constexpr std::size_t kShort = 8;                           // bytes of a word that is its own key
constexpr std::uint64_t kLong = 0xFF00000000000000U;        // marks other keys: no byte of UTF-8 is 0xFF
constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15U;  // 2^64 / golden ratio

bool is_ascii(char byte) {
    return static_cast<unsigned char>(byte) < 0x80U;
}

/// What an ASCII character is in a word; 0 for one that stands between words. Written without branches, so that a
/// compiler does many at once.
char ascii_letter(char byte) {
    const auto code = static_cast<unsigned char>(byte);
    const auto lower = static_cast<unsigned char>(code | 0x20U);
    const bool is_letter = static_cast<unsigned char>(lower - 'a') < 26;
    const bool is_digit = static_cast<unsigned char>(code - '0') < 10;
    return static_cast<char>(is_letter ? lower : is_digit || code == '_' ? code : 0);
}

template <class T>
std::uint64_t loaded(const char* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

/// Up to eight bytes as a number, zeros behind them.
std::uint64_t short_key(std::string_view word) {
    const char* const at = word.data();
    const std::size_t size = word.size();
    // Two loads that overlap agree where they do.
    if (size >= 4) return loaded<std::uint32_t>(at) | loaded<std::uint32_t>(at + size - 4) << (8 * (size - 4));
    if (size >= 2) return loaded<std::uint16_t>(at) | loaded<std::uint16_t>(at + size - 2) << (8 * (size - 2));
    return loaded<std::uint8_t>(at);
}

std::uint64_t key_of(std::string_view word) {
    return word.size() <= kShort ? short_key(word) : stable_hash(word) | kLong;
}

/// The place of the first byte that is not ASCII, or the end.
const char* skip_ascii(const char* at, const char* end) {
    while (end - at >= 8) {
        std::uint64_t bytes;
        std::memcpy(&bytes, at, 8);
        if ((bytes & 0x8080808080808080U) != 0) break;
        at += 8;
    }
    while (at != end && is_ascii(*at)) ++at;
    return at;
}

/// Whether a character of this text is hard, or marks are not in Unicode's canonical order.
bool is_hard(std::string_view text, const Characters* characters) {
    const char* at = text.data();
    const char* const end = at + text.size();
    at = skip_ascii(at, end);
    if (at == end) return false;
    if (characters == nullptr) return true;
    std::uint8_t before = 0;
    while (at != end) {
        const Characters::Character found = (*characters)[next_code_point(at, end)];
        if (found.kind == CharacterKind::hard) return true;
        if (found.combining_class != 0 && found.combining_class < before) return true;
        before = found.combining_class;
    }
    return false;
}

std::size_t num_bytes(const TextParts& texts) {
    return std::accumulate(texts.parts.begin(), texts.parts.end(), std::size_t{0},
                           [](std::size_t sum, std::string_view part) { return sum + part.size(); });
}

}  // namespace

Characters::Characters(std::span<const std::uint8_t> kinds, std::span<const std::uint32_t> lower,
                       std::span<const std::uint8_t> classes) {
    assert(kinds.size() == lower.size() && kinds.size() == classes.size());
    table_.reserve(kinds.size());
    for (std::size_t code = 0; code < kinds.size(); ++code) {
        table_.push_back({lower[code], static_cast<CharacterKind>(kinds[code]), classes[code]});
    }
}

std::vector<std::uint32_t> hard_texts(const TextParts& texts, const Characters* characters) {
    std::vector<std::uint32_t> found;
    for (std::size_t number = 0; number < texts.num_texts(); ++number) {
        const auto parts = texts.text(number);
        if (std::any_of(parts.begin(), parts.end(), [&](auto part) { return is_hard(part, characters); })) {
            found.push_back(static_cast<std::uint32_t>(number));
        }
    }
    return found;
}

// --- words -----------------------------------------------------------------------------------------------------------

WordTable::WordTable(std::size_t num_words) : slots_(2 * std::bit_ceil(std::max<std::size_t>(num_words, 1))) {}

std::size_t WordTable::place_of(std::uint64_t key, std::string_view word) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t place = (key * kMultiplier) >> 32U & mask;
    for (; slots_[place].number_plus_one != 0; place = (place + 1) & mask) {
        if (slots_[place].key != key) continue;
        if (word.size() <= kShort || words_[slots_[place].number()] == word) break;
    }
    return place;
}

WordTable::Slot& WordTable::find_or_add(std::string_view word) {
    const std::uint64_t key = key_of(word);
    std::size_t place = place_of(key, word);
    if (slots_[place].number_plus_one != 0) return slots_[place];
    if (words_.size() >= std::numeric_limits<std::int32_t>::max()) throw InputError("too many different words");
    if (2 * words_.size() >= slots_.size()) {
        grow();
        place = place_of(key, word);
    }
    words_.add(word);
    slots_[place] = {key, static_cast<std::uint32_t>(words_.size()), 0};
    return slots_[place];
}

const WordTable::Slot* WordTable::find(std::string_view word) const {
    const Slot& slot = slots_[place_of(key_of(word), word)];
    return slot.number_plus_one == 0 ? nullptr : &slot;
}

void WordTable::grow() {
    std::vector<Slot> larger(2 * slots_.size());
    const std::size_t mask = larger.size() - 1;
    for (const Slot& slot : slots_) {
        if (slot.number_plus_one == 0) continue;
        std::size_t place = (slot.key * kMultiplier) >> 32U & mask;
        while (larger[place].number_plus_one != 0) place = (place + 1) & mask;
        larger[place] = slot;
    }
    slots_ = std::move(larger);
}

// --- counting --------------------------------------------------------------------------------------------------------

WordCounts::WordCounts(const TextParts& texts, const Characters* characters, std::span<const std::uint32_t> hard,
                       std::string_view hard_words)
    : words_(std::clamp<std::size_t>(num_bytes(texts) / 64, 32, 1U << 16U)) {
    rows_.indptr.reserve(texts.num_texts() + 1);
    rows_.indices.reserve(num_bytes(texts) / 8);
    rows_.counts.reserve(num_bytes(texts) / 8);
    std::size_t next_hard = 0;
    for (std::size_t number = 0; number < texts.num_texts(); ++number) {
        if (next_hard < hard.size() && hard[next_hard] == number) {
            const std::size_t length = std::min(hard_words.find('\n'), hard_words.size());
            add_all(hard_words.substr(0, length));
            hard_words.remove_prefix(std::min(length + 1, hard_words.size()));
            ++next_hard;
        } else {
            for (const std::string_view part : texts.text(number)) split(part, characters);
        }
        rows_.indptr.push_back(static_cast<std::int64_t>(rows_.indices.size()));
    }
}

void WordCounts::add(std::string_view word) {
    WordTable::Slot& slot = words_.find_or_add(word);
    if (slot.value > rows_.indptr.back()) {
        ++rows_.counts[static_cast<std::size_t>(slot.value) - 1];
        return;
    }
    if (rows_.indices.size() >= std::numeric_limits<std::int32_t>::max()) throw InputError("too many words at once");
    rows_.indices.push_back(static_cast<std::int32_t>(slot.number()));
    rows_.counts.push_back(1);
    slot.value = static_cast<std::int32_t>(rows_.indices.size());
}

void WordCounts::add_all(std::string_view words) {
    while (!words.empty()) {
        const std::size_t length = std::min(words.find(' '), words.size());
        add(words.substr(0, length));
        words.remove_prefix(std::min(length + 1, words.size()));
    }
}

void WordCounts::split(std::string_view text, const Characters* characters) {
    const char* const end = text.data() + text.size();
    for (const char* at = text.data(); at != end;) {
        const char* stop = skip_ascii(at, end);
        // A word that goes on beyond ASCII is no matter of ASCII alone.
        while (stop != end && stop != at && ascii_letter(stop[-1]) != 0) --stop;
        split_ascii({at, static_cast<std::size_t>(stop - at)});
        at = stop;
        if (at == end) return;
        if (characters == nullptr) throw std::invalid_argument("expected characters for text beyond ASCII");
        at = split_run(at, end, *characters);
    }
}

void WordCounts::split_ascii(std::string_view text) {
    if (lower_.size() <= text.size()) lower_.resize(2 * text.size() + 1);
    std::transform(text.begin(), text.end(), lower_.begin(), ascii_letter);
    lower_[text.size()] = '\0';
    const char* const end = lower_.data() + text.size();
    for (const char* at = lower_.data(); at != end; ++at) {
        if (*at == '\0') continue;
        const char* const first = at;
        while (*at != '\0') ++at;
        if (at - first >= 2) add({first, static_cast<std::size_t>(at - first)});
        if (at == end) return;
    }
}

/// Takes the words up to the next ASCII character that is no letter.
const char* WordCounts::split_run(const char* at, const char* end, const Characters& characters) {
    CharacterKind kind = CharacterKind::gap;  // of the characters in word_
    std::size_t length = 0;                   // how many these are
    std::size_t last = 0;                     // where the last of them starts
    const auto finish = [&] {
        const bool is_alone = kind == CharacterKind::unspaced && length == 1;
        if (is_alone || (kind == CharacterKind::letter && length >= 2)) add(word_);
        word_.clear();
        length = 0;
    };
    word_.clear();
    while (at != end && !(is_ascii(*at) && ascii_letter(*at) == 0)) {
        const Characters::Character found = characters[next_code_point(at, end)];
        if (found.kind != kind) finish();
        kind = found.kind;
        if (kind == CharacterKind::gap) continue;
        const std::size_t start = word_.size();
        append_utf8(found.lower, word_);
        ++length;
        if (kind == CharacterKind::unspaced && length >= 2) {
            add(std::string_view(word_).substr(last));
        }
        last = start;
    }
    finish();
    return at;
}

CountRows WordCounts::by_column(std::span<const std::int32_t> columns) const {
    assert(columns.size() == words_.size());
    CountRows out;
    out.indptr.reserve(rows_.indptr.size());
    out.indices.reserve(rows_.indices.size());
    out.counts.reserve(rows_.indices.size());
    std::vector<std::uint64_t> row;  // column, then count
    for (std::size_t number = 0; number + 1 < rows_.indptr.size(); ++number) {
        row.clear();
        for (auto at = static_cast<std::size_t>(rows_.indptr[number]);
             at < static_cast<std::size_t>(rows_.indptr[number + 1]); ++at) {
            const std::int32_t column = columns[static_cast<std::size_t>(rows_.indices[at])];
            if (column < 0) continue;
            row.push_back(static_cast<std::uint64_t>(column) << 32U | static_cast<std::uint32_t>(rows_.counts[at]));
        }
        std::sort(row.begin(), row.end());
        for (const std::uint64_t entry : row) {
            const auto column = static_cast<std::int32_t>(entry >> 32U);
            const auto count = static_cast<std::int32_t>(entry & 0xFFFFFFFFU);
            const bool is_first = out.indices.size() == static_cast<std::size_t>(out.indptr.back());
            if (!is_first && out.indices.back() == column) {
                out.counts.back() += count;
            } else {
                out.indices.push_back(column);
                out.counts.push_back(count);
            }
        }
        out.indptr.push_back(static_cast<std::int64_t>(out.indices.size()));
    }
    return out;
}

// --- columns ---------------------------------------------------------------------------------------------------------

std::vector<std::int32_t> WordColumns::find(const WordTable& words) const {
    std::vector<std::int32_t> columns(words.size(), kUnknown);
    for (std::size_t number = 0; number < words.size(); ++number) {
        const WordTable::Slot* found = words_.find(words[number]);
        if (found != nullptr) columns[number] = found->value;
    }
    return columns;
}

void WordColumns::add(const WordTable& words, std::span<const std::uint32_t> numbers,
                      std::span<const std::int32_t> columns) {
    assert(numbers.size() == columns.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) words_.find_or_add(words[numbers[i]]).value = columns[i];
}

}  // namespace segmax
