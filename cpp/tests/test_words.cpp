// Words of texts, and their counts. Python's tests compare them with the slow twin; these need no Python.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "segmax/text/words.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

/// A table up to U+30FF: é and É are letters, kana unspaced, U+0301 hard, U+0323 and U+0316 marks between words.
Characters small_table() {
    constexpr std::size_t size = 0x3100;
    std::vector<std::uint8_t> kinds(size, static_cast<std::uint8_t>(CharacterKind::gap));
    std::vector<std::uint32_t> lower(size);
    std::vector<std::uint8_t> classes(size, 0);
    for (std::uint32_t code = 0; code < size; ++code) {
        const bool upper = code >= 'A' && code <= 'Z';
        lower[code] = upper ? code + 32 : code == 0xC9 ? 0xE9 : code;
        const std::uint32_t c = lower[code];
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == 0xE9) {
            kinds[code] = static_cast<std::uint8_t>(CharacterKind::letter);
        }
        if (c >= 0x3041) kinds[code] = static_cast<std::uint8_t>(CharacterKind::unspaced);
    }
    kinds[0x301] = static_cast<std::uint8_t>(CharacterKind::hard);
    classes[0x301] = classes[0x302] = 230;
    classes[0x316] = 220;
    return {kinds, lower, classes};
}

std::string joined(const WordTable& words) {
    std::string all;
    for (std::size_t i = 0; i < words.size(); ++i) all.append(i == 0 ? "" : " ").append(words[i]);
    return all;
}

std::string words_of(std::string_view text, const Characters* characters = nullptr) {
    return joined(WordCounts({{text}, 1}, characters, {}, "").words());
}

TEST(ascii_words_have_two_letters_or_more) {
    CHECK_EQ(words_of("The cats' 2nd_Life, a b; x86-64!"), "the cats 2nd_life x86 64");
    CHECK_EQ(words_of(""), "");
    CHECK_EQ(words_of("a"), "");
    CHECK_EQ(words_of("ab"), "ab");
    CHECK_EQ(words_of("a\nbc\tD E"), "bc");
    CHECK_EQ(words_of(std::string_view("ab\0cd", 5)), "ab cd");
    const std::string longest(100000, 'X');
    CHECK_EQ(words_of(longest), std::string(100000, 'x'));
}

TEST(words_of_every_length_are_told_apart) {
    WordTable table;
    std::vector<std::string> words;
    for (std::size_t length = 1; length <= 20; ++length) {
        for (const char last : {'a', 'b', 'z'}) words.push_back(std::string(length - 1, 'a') + last);
    }
    for (std::size_t i = 0; i < 5000; ++i) words.push_back(std::to_string(i * 7919).append("w"));
    for (std::size_t i = 0; i < words.size(); ++i) {
        CHECK(table.find(words[i]) == nullptr);
        WordTable::Slot& slot = table.find_or_add(words[i]);
        CHECK_EQ(slot.number(), i);
        slot.value = static_cast<std::int32_t>(2 * i);
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
        CHECK_EQ(table.find(words[i])->value, static_cast<std::int32_t>(2 * i));
        CHECK_EQ(table.find_or_add(words[i]).number(), i);
        CHECK_EQ(table[i], words[i]);
    }
}

TEST(words_beyond_ascii) {
    const Characters table = small_table();
    CHECK_EQ(words_of("CAF\xC3\x89 au lait", &table), "caf\xC3\xA9 au lait");
    CHECK_EQ(words_of("\xC3\x89t\xC3\xA9-ete \xC3\xA9", &table), "\xC3\xA9t\xC3\xA9 ete");
    CHECK_EQ(words_of("ab\xC2\xA0"
                      "cd",
                      &table),
             "ab cd");
    // Two neighbors are a word, and one that is alone.
    CHECK_EQ(words_of("x\xE3\x81\x81\xE3\x81\x82\xE3\x81\x83 yz\xE3\x81\x84", &table),
             "\xE3\x81\x81\xE3\x81\x82 \xE3\x81\x82\xE3\x81\x83 yz \xE3\x81\x84");
}

TEST(hard_texts_are_found_and_given) {
    const Characters table = small_table();
    const TextParts texts{
        {"plain", "caf\xC3\xA9", "cafe\xCC\x81", "\xF0\x9F\x98\x80", "a\xCC\x82\xCC\x96", "a\xCC\x96\xCC\x82"}, 1};
    CHECK_EQ(hard_texts(texts, nullptr), (std::vector<std::uint32_t>{1, 2, 3, 4, 5}));
    CHECK_EQ(hard_texts(texts, &table), (std::vector<std::uint32_t>{2, 3, 4}));
    const std::vector<std::uint32_t> hard{2, 3, 4};
    const WordCounts counts(texts, &table, hard, "given words\n\nlast");
    CHECK_EQ(joined(counts.words()), "plain caf\xC3\xA9 given words last");
    const CountRows rows = counts.by_column(std::vector<std::int32_t>{0, 1, 2, 3, 4});
    CHECK_EQ(rows.indptr, (std::vector<std::int64_t>{0, 1, 2, 4, 4, 5, 5}));
}

TEST(counts_by_column) {
    const TextParts texts{{"bb aa bb", "aa cc", "", "", "dd", "aa dd AA"}, 2};
    CHECK_EQ(texts.num_texts(), 3U);
    const WordCounts counts(texts, nullptr, {}, "");
    CHECK_EQ(joined(counts.words()), "bb aa cc dd");
    // aa and dd are one column, cc none.
    const CountRows rows = counts.by_column(std::vector<std::int32_t>{7, 3, -1, 3});
    CHECK_EQ(rows.indptr, (std::vector<std::int64_t>{0, 2, 2, 3}));
    CHECK_EQ(rows.indices, (std::vector<std::int32_t>{3, 7, 3}));
    CHECK_EQ(rows.counts, (std::vector<std::int32_t>{2, 2, 4}));
}

TEST(columns_of_words_are_remembered) {
    WordColumns known;
    const WordCounts first({{"aa bb"}, 1}, nullptr, {}, "");
    CHECK_EQ(known.find(first.words()), (std::vector<std::int32_t>{WordColumns::kUnknown, WordColumns::kUnknown}));
    known.add(first.words(), std::vector<std::uint32_t>{0, 1}, std::vector<std::int32_t>{5, -1});
    const WordCounts second({{"cc bb aa"}, 1}, nullptr, {}, "");
    CHECK_EQ(known.find(second.words()), (std::vector<std::int32_t>{WordColumns::kUnknown, -1, 5}));
}

}  // namespace
