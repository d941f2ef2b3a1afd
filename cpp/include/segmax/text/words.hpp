// Texts to counts of words. What words are is Python's to say (encoders/words.py): this is the fast way to the same.
//
// A character is part of a word or stands between words; what is beyond ASCII, and how it is written in lower case, a
// table says that Python makes of its own rules. Where the meaning of a character depends on those around it (accents
// that stand behind their letter, a capital sigma), the text is hard, and Python splits it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "segmax/io/text.hpp"

namespace segmax {

/// What a character is to words.
enum class CharacterKind : std::uint8_t {
    gap,       ///< stands between words
    letter,    ///< two or more of them in a row are a word
    unspaced,  ///< of a script without blanks: every two neighbors are a word, and so is one that is alone
    hard,      ///< depends on its neighbors: Python has to look
};

/// Characters by code point. Those beyond the table are hard.
class Characters {
public:
    /// Three entries per code point, all of one length: the kind; the character in lower case, of which kind and class
    /// speak; and Unicode's canonical combining class.
    Characters(std::span<const std::uint8_t> kinds, std::span<const std::uint32_t> lower,
               std::span<const std::uint8_t> classes);

    struct Character {
        std::uint32_t lower;
        CharacterKind kind;
        std::uint8_t combining_class;
    };
    Character operator[](std::uint32_t code) const {
        return code < table_.size() ? table_[code] : Character{code, CharacterKind::hard, 0};
    }

private:
    std::vector<Character> table_;
};

/// Texts in UTF-8, each in one or several parts; a word is in one part.
struct TextParts {
    std::vector<std::string_view> parts;
    std::size_t parts_per_text = 1;

    std::size_t num_texts() const { return parts.size() / parts_per_text; }
    std::span<const std::string_view> text(std::size_t number) const {
        return {parts.data() + number * parts_per_text, parts_per_text};
    }
};

/// The texts that Python has to split, ascending. Without a table, those that are not ASCII.
std::vector<std::uint32_t> hard_texts(const TextParts& texts, const Characters* characters);

/// Words by number and numbers by word, in the order of first sight, and a value for each.
///
/// A word of up to eight bytes is its own key, so that most words are found without a look at their text.
class WordTable {
public:
    struct Slot {
        std::uint64_t key = 0;
        std::uint32_t number_plus_one = 0;  ///< 0: free
        std::int32_t value = 0;

        std::uint32_t number() const { return number_plus_one - 1; }
    };

    /// Has room for so many words before it grows.
    explicit WordTable(std::size_t num_words = 512);
    /// The slot of a word, which is not empty; a new one has the value 0. Valid until the next call.
    Slot& find_or_add(std::string_view word);
    /// The slot of a word; nullptr if it is not there.
    const Slot* find(std::string_view word) const;
    std::size_t size() const { return words_.size(); }
    std::string_view operator[](std::size_t number) const { return words_[number]; }

private:
    std::size_t place_of(std::uint64_t key, std::string_view word) const;
    void grow();

    TextList words_;
    std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
};

/// A CSR matrix of counts.
struct CountRows {
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int32_t> indices;
    std::vector<std::int32_t> counts;
};

/// How often some texts have each of their words, in lower case. Words are numbered in the order of first occurrence.
class WordCounts {
public:
    /// `hard` are the texts that Python has split, ascending; `hard_words` has a line for each, its words with a blank
    /// between any two. All other texts must not be hard.
    WordCounts(const TextParts& texts, const Characters* characters, std::span<const std::uint32_t> hard,
               std::string_view hard_words);

    const WordTable& words() const { return words_; }
    /// The counts by column, ascending, where each word has a column; words of one column are added up, and those of a
    /// negative one left out. `columns` has an entry per word.
    CountRows by_column(std::span<const std::int32_t> columns) const;

private:
    void add(std::string_view word);
    void add_all(std::string_view words);
    void split(std::string_view text, const Characters* characters);
    void split_ascii(std::string_view text);
    const char* split_run(const char* at, const char* end, const Characters& characters);

    WordTable words_;  // the value of a word: its last entry in rows_, counted from 1
    CountRows rows_;
    std::string lower_;  // of the ASCII text under way, with zeros between words
    std::string word_;
};

/// The columns of words, over all texts so far.
class WordColumns {
public:
    static constexpr std::int32_t kUnknown = -2;

    /// The column of every word; kUnknown for those that have none yet.
    std::vector<std::int32_t> find(const WordTable& words) const;
    /// Gives columns to words that have none yet, by their numbers in `words`.
    void add(const WordTable& words, std::span<const std::uint32_t> numbers, std::span<const std::int32_t> columns);

private:
    WordTable words_;  // with their columns
};

}  // namespace segmax
