// Texts to counts of words.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "checks.hpp"
#include "registers.hpp"
#include "segmax/text/words.hpp"

namespace segmax::bindings {

namespace {

template <class T>
using Returned = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
using Strings = nb::typed<nb::list, nb::str>;
using Rows = nb::typed<nb::tuple, Returned<std::int64_t>, Returned<std::int32_t>, Returned<std::int32_t>>;

/// A character beyond every table, for strings that UTF-8 cannot hold: whoever counts words then asks Python.
constexpr std::string_view kHardText = "\xF4\x8F\xBF\xBF";

/// Texts as they lie in Python's memory, for as long as this lives.
class PyTexts {
public:
    PyTexts(const Strings& strings, std::size_t parts_per_text) : kept_(nb::tuple(strings)) {
        require(parts_per_text > 0 && nb::len(kept_) % parts_per_text == 0, "expected as many parts for every text");
        texts_.parts_per_text = parts_per_text;
        texts_.parts.reserve(nb::len(kept_));
        for (const nb::handle string : nb::borrow<nb::tuple>(kept_)) {
            Py_ssize_t size = 0;
            const char* data = PyUnicode_AsUTF8AndSize(string.ptr(), &size);
            if (data == nullptr && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError) == 0) throw nb::python_error();
            PyErr_Clear();
            const std::string_view view(data, static_cast<std::size_t>(size));
            texts_.parts.push_back(data == nullptr ? kHardText : view);
        }
    }

    /// Titles and texts in turn, one after the other in `content`; titles may be left out.
    PyTexts(const Array<std::uint8_t>& content, const Array<std::uint32_t>& lengths, bool titles)
        : kept_(nb::cast(content)) {
        require(lengths.size() % 2 == 0, "expected a title for every text");
        texts_.parts_per_text = titles ? 2 : 1;
        texts_.parts.reserve(lengths.size());
        std::string_view rest(reinterpret_cast<const char*>(content.data()), content.size());
        for (std::size_t number = 0; number < lengths.size(); ++number) {
            const std::size_t length = view(lengths)[number];
            require(length <= rest.size(), "expected lengths that fit the content");
            if (titles || number % 2 == 1) texts_.parts.push_back(rest.substr(0, length));
            rest.remove_prefix(length);
        }
        require(rest.empty(), "expected lengths that fit the content");
    }

    const TextParts& parts() const { return texts_; }

private:
    nb::object kept_;  // a tuple of the strings, which nobody else can change, or the array
    TextParts texts_;
};

nb::object hard_numbers(const PyTexts& texts, const Characters* characters) {
    std::vector<std::uint32_t> found;
    {
        const nb::gil_scoped_release release;
        found = hard_texts(texts.parts(), characters);
    }
    return owned(std::move(found));
}

WordCounts count_words(const PyTexts& texts, const Characters* characters, const Array<std::uint32_t>& hard,
                       const nb::bytes& hard_words) {
    const std::string_view words(hard_words.c_str(), hard_words.size());
    require_below("hard texts", view(hard), texts.parts().num_texts());
    const auto num_lines = std::count(words.begin(), words.end(), '\n') + (hard.size() == 0 ? 0 : 1);
    require_one_length("hard texts", hard.size(), "their lines", static_cast<std::size_t>(num_lines));
    const nb::gil_scoped_release release;
    return WordCounts(texts.parts(), characters, view(hard), words);
}

Strings chosen_words(const WordCounts& counts, const Array<std::uint32_t>& numbers) {
    require_below("numbers of words", view(numbers), counts.words().size());
    nb::list list;
    for (const std::uint32_t number : view(numbers)) {
        const std::string_view word = counts.words()[number];
        list.append(nb::steal(PyUnicode_DecodeUTF8(word.data(), static_cast<Py_ssize_t>(word.size()), "strict")));
    }
    return Strings(std::move(list));
}

Rows by_column(const WordCounts& counts, const Array<std::int32_t>& columns) {
    require(columns.size() == counts.words().size(), "expected a column per word");
    CountRows rows;
    {
        const nb::gil_scoped_release release;
        rows = counts.by_column(view(columns));
    }
    return Rows(
        nb::make_tuple(owned(std::move(rows.indptr)), owned(std::move(rows.indices)), owned(std::move(rows.counts))));
}

nb::object find_columns(const WordColumns& known, const WordCounts& counts) {
    std::vector<std::int32_t> columns;
    {
        const nb::gil_scoped_release release;
        columns = known.find(counts.words());
    }
    return owned(std::move(columns));
}

void add_columns(WordColumns& known, const WordCounts& counts, const Array<std::uint32_t>& numbers,
                 const Array<std::int32_t>& columns) {
    require_one_length("numbers", numbers.size(), "columns", columns.size());
    require_below("numbers of words", view(numbers), counts.words().size());
    known.add(counts.words(), view(numbers), view(columns));
}

Characters* make_characters(const Array<std::uint8_t>& kinds, const Array<std::uint32_t>& lower,
                            const Array<std::uint8_t>& classes) {
    require_one_length("kinds", kinds.size(), "lower", lower.size());
    require_one_length("kinds", kinds.size(), "classes", classes.size());
    require_below("kinds", view(kinds), static_cast<std::size_t>(CharacterKind::hard) + 1);
    require_below("lower", view(lower), 0x110000);
    return new Characters(view(kinds), view(lower), view(classes));
}

}  // namespace

void register_words(nb::module_& module) {
    using namespace nb::literals;
    module.attr("GAP") = static_cast<int>(CharacterKind::gap);
    module.attr("LETTER") = static_cast<int>(CharacterKind::letter);
    module.attr("UNSPACED") = static_cast<int>(CharacterKind::unspaced);
    module.attr("HARD") = static_cast<int>(CharacterKind::hard);
    nb::class_<Characters>(module, "Characters", "What characters are to words, by code point.")
        .def(nb::new_(&make_characters), "kinds"_a, "lower"_a, "classes"_a);

    nb::class_<PyTexts>(module, "Texts", "Texts as they lie in memory.")
        .def(nb::init<const Strings&, std::size_t>(), "parts"_a, "parts_per_text"_a = 1)
        .def(nb::init<const Array<std::uint8_t>&, const Array<std::uint32_t>&, bool>(), "content"_a, "lengths"_a,
             "titles"_a)
        .def("hard", &hard_numbers,
             nb::sig("def hard(self, characters: Characters | None) -> numpy.typing.NDArray[numpy.uint32]"),
             "characters"_a.none(), "The texts that Python has to split; without characters, those that are not ASCII.")
        .def("count", &count_words, "characters"_a.none(), "hard"_a, "hard_words"_a,
             "The counts of their words; `hard_words` has a line of words per hard text.");

    nb::class_<WordCounts>(module, "WordCounts", "How often texts have each of their words.")
        .def_prop_ro("num_words", [](const WordCounts& self) { return self.words().size(); })
        .def("words", &chosen_words, "numbers"_a, "Some of the words, in lower case.")
        .def("by_column", &by_column, "columns"_a, "Rows over columns, given by word; -1: it is left out.");

    nb::class_<WordColumns>(module, "WordColumns", "The columns of words.")
        .def(nb::init<>())
        .def("find", &find_columns, nb::sig("def find(self, counts: WordCounts) -> numpy.typing.NDArray[numpy.int32]"),
             "counts"_a, "The column of every word; -2: it has none yet.")
        .def("add", &add_columns, "counts"_a, "numbers"_a, "columns"_a, "Give columns to words that have none yet.");
}

}  // namespace segmax::bindings
