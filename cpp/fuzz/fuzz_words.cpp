// Texts to counts of words. The first byte says how many parts a text has; a line feed ends a part.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "segmax/io/text.hpp"
#include "segmax/text/words.hpp"

namespace {

using namespace segmax;

/// Letters, marks, a script without blanks and hard characters, though not where Unicode has all of them.
Characters some_characters() {
    constexpr std::uint32_t kEnd = 0x3200;
    std::vector<std::uint8_t> kinds(kEnd, static_cast<std::uint8_t>(CharacterKind::gap));
    std::vector<std::uint32_t> lower(kEnd);
    std::vector<std::uint8_t> classes(kEnd, 0);
    const auto set = [&](std::uint32_t first, std::uint32_t last, CharacterKind kind) {
        std::fill(kinds.begin() + first, kinds.begin() + last + 1, static_cast<std::uint8_t>(kind));
    };
    for (std::uint32_t code = 0; code < kEnd; ++code) lower[code] = code;
    for (std::uint32_t code = 'A'; code <= 'Z'; ++code) lower[code] = code + 32;
    for (std::uint32_t code = 0x391; code <= 0x3A9; ++code) lower[code] = code + 32;
    lower[0x23A] = 0x2C65;  // longer in UTF-8
    set('0', '9', CharacterKind::letter);
    set('A', 'Z', CharacterKind::letter);
    set('a', 'z', CharacterKind::letter);
    set('_', '_', CharacterKind::letter);
    set(0xC0, 0x24F, CharacterKind::letter);
    set(0x300, 0x36F, CharacterKind::letter);
    set(0x370, 0x3FF, CharacterKind::letter);
    set(0x2C60, 0x2C7F, CharacterKind::letter);
    set(0x3040, 0x30FF, CharacterKind::unspaced);
    set(0x3A3, 0x3A3, CharacterKind::hard);
    for (std::uint32_t code = 0x300; code <= 0x36F; ++code) classes[code] = static_cast<std::uint8_t>(code % 3 * 110);
    return {kinds, lower, classes};
}

/// Matrices of counts have ascending rows of positive counts.
void check_counts(const CountRows& rows, std::size_t num_texts, std::int32_t num_columns) {
    REQUIRE(rows.indptr.size() == num_texts + 1 && rows.indptr.front() == 0);
    REQUIRE(static_cast<std::size_t>(rows.indptr.back()) == rows.indices.size());
    REQUIRE(rows.counts.size() == rows.indices.size());
    for (std::size_t text = 0; text < num_texts; ++text) {
        for (auto i = static_cast<std::size_t>(rows.indptr[text]); i < static_cast<std::size_t>(rows.indptr[text + 1]);
             ++i) {
            REQUIRE(rows.counts[i] > 0 && rows.indices[i] >= 0 && rows.indices[i] < num_columns);
            REQUIRE(i == static_cast<std::size_t>(rows.indptr[text]) || rows.indices[i - 1] < rows.indices[i]);
        }
    }
}

void count(const TextParts& texts, const Characters* characters) {
    const std::vector<std::uint32_t> hard = hard_texts(texts, characters);
    std::string hard_words;
    for (const std::uint32_t number : hard) hard_words += number % 2 == 0 ? "two words\n" : "\n";
    const WordCounts counts(texts, characters, hard, hard_words);
    const auto num_words = static_cast<std::int32_t>(counts.words().size());
    for (std::size_t word = 0; word < counts.words().size(); ++word) {
        REQUIRE(!counts.words()[word].empty() && is_utf8(counts.words()[word]));
        REQUIRE(counts.words().find(counts.words()[word])->number() == word);
    }
    std::vector<std::int32_t> columns(counts.words().size());
    for (std::size_t word = 0; word < columns.size(); ++word) columns[word] = static_cast<std::int32_t>(word);
    check_counts(counts.by_column(columns), texts.num_texts(), num_words);
    for (std::size_t word = 0; word < columns.size(); ++word) columns[word] = static_cast<std::int32_t>(word % 3) - 1;
    check_counts(counts.by_column(columns), texts.num_texts(), 2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Characters characters = some_characters();
    fuzz::Input input(data, size);
    TextParts texts;
    texts.parts_per_text = 1U + input.take<std::uint8_t>() % 3;
    std::vector<std::string> parts;  // each of its own allocation
    for (std::string_view left = input.rest(); !left.empty();) {
        const std::size_t end = std::min(left.find('\n'), left.size());
        if (is_utf8(left.substr(0, end))) parts.emplace_back(left.substr(0, end));
        left.remove_prefix(std::min(end + 1, left.size()));
    }
    while (parts.size() % texts.parts_per_text != 0) parts.emplace_back();
    texts.parts.assign(parts.begin(), parts.end());
    count(texts, &characters);
    count(texts, nullptr);
    return 0;
}
