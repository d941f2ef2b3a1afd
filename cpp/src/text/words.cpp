#include "segmax/text/words.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "segmax/io/utf8.hpp"

namespace segmax {

namespace {

/// What every ASCII character is in a word; 0 for those that stand between words.
constexpr std::array<char, 128> kAsciiLetters = [] {
    std::array<char, 128> table{};
    for (char c = '0'; c <= '9'; ++c) table[static_cast<std::size_t>(c)] = c;
    for (char c = 'a'; c <= 'z'; ++c) table[static_cast<std::size_t>(c)] = c;
    for (char c = 'A'; c <= 'Z'; ++c) table[static_cast<std::size_t>(c)] = static_cast<char>(c - 'A' + 'a');
    table['_'] = '_';
    return table;
}();

bool is_ascii(char byte) {
    return static_cast<unsigned char>(byte) < 0x80U;
}

char ascii_letter(char byte) {
    return kAsciiLetters[static_cast<unsigned char>(byte)];
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
    const char* const end = text.data() + text.size();
    const char* at = skip_ascii(text.data(), end);
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

// --- counting --------------------------------------------------------------------------------------------------------

WordCounts::WordCounts(const TextParts& texts, const Characters* characters, std::span<const std::uint32_t> hard,
                       std::string_view hard_words) {
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
    const Vocabulary::Found found = words_.find_or_add(word);
    if (found.is_new) last_entry_.push_back(0);
    std::size_t& entry = last_entry_[found.number];
    if (entry > static_cast<std::size_t>(rows_.indptr.back())) {
        ++rows_.counts[entry - 1];
        return;
    }
    rows_.indices.push_back(static_cast<std::int32_t>(found.number));
    rows_.counts.push_back(1);
    entry = rows_.indices.size();
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
    const char* const end = text.data() + text.size();
    for (const char* at = text.data(); at != end; ++at) {
        char letter = ascii_letter(*at);
        if (letter == 0) continue;
        word_.clear();
        do {
            word_.push_back(letter);
        } while (++at != end && (letter = ascii_letter(*at)) != 0);
        if (word_.size() >= 2) add(word_);
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

std::vector<std::int32_t> WordColumns::find(const Vocabulary& words) const {
    std::vector<std::int32_t> columns(words.size(), kUnknown);
    for (std::size_t number = 0; number < words.size(); ++number) {
        const auto found = words_.find(words[number]);
        if (found) columns[number] = columns_[*found];
    }
    return columns;
}

void WordColumns::add(const Vocabulary& words, std::span<const std::uint32_t> numbers,
                      std::span<const std::int32_t> columns) {
    assert(numbers.size() == columns.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const Vocabulary::Found found = words_.find_or_add(words[numbers[i]]);
        if (found.is_new) columns_.push_back(columns[i]);
    }
}

}  // namespace segmax
