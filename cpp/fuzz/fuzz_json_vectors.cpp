// Lines of JSON with vectors: rows of CSR or InputError, in whatever pieces the lines come, and the same when written.
#include <algorithm>
#include <string>

#include "fuzz.hpp"
#include "segmax/io/errors.hpp"
#include "segmax/io/json_vectors.hpp"

namespace {

using namespace segmax;

/// Where the line at the front of a text ends, its line feed included.
std::size_t line_bytes(std::string_view text) {
    const std::size_t at = text.find('\n');
    return at == std::string_view::npos ? text.size() : at + 1;
}

void check_rows(const VectorRows& rows, std::size_t num_terms) {
    REQUIRE(rows.indptr.size() == rows.ids.size() + 1);
    REQUIRE(rows.indptr.front() == 0 && std::is_sorted(rows.indptr.begin(), rows.indptr.end()));
    REQUIRE(static_cast<std::size_t>(rows.indptr.back()) == rows.terms.size());
    REQUIRE(rows.terms.size() == rows.weights.size());
    REQUIRE(std::all_of(rows.terms.begin(), rows.terms.end(), [&](std::uint32_t term) { return term < num_terms; }));
    for (std::size_t row = 0; row < rows.ids.size(); ++row) REQUIRE(is_utf8(rows.ids[row]));
}

/// Rows, written and read again, are the same.
void check_round_trip(const VectorRows& rows, const Vocabulary& vocabulary) {
    JsonVectorFormatter formatter;
    for (std::size_t term = 0; term < vocabulary.size(); ++term) formatter.add_term(vocabulary[term]);
    std::string text;
    for (std::size_t row = 0; row < rows.ids.size(); ++row) {
        const auto first = static_cast<std::size_t>(rows.indptr[row]);
        const std::size_t count = static_cast<std::size_t>(rows.indptr[row + 1]) - first;
        formatter.append(rows.ids[row], false, std::span(rows.terms).subspan(first, count),
                         std::span(rows.weights).subspan(first, count), text);
    }
    JsonVectorParser parser;
    parser.parse(text);
    const VectorRows again = parser.take();
    REQUIRE(again.indptr == rows.indptr);
    REQUIRE(again.weights == rows.weights);
    for (std::size_t row = 0; row < rows.ids.size(); ++row) REQUIRE(again.ids[row] == rows.ids[row]);
    for (std::size_t i = 0; i < rows.terms.size(); ++i) {
        REQUIRE(parser.vocabulary()[again.terms[i]] == vocabulary[rows.terms[i]]);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string copy(reinterpret_cast<const char*>(data), size);  // of its own allocation
    JsonVectorParser whole;
    JsonVectorParser by_line;
    bool is_good = true;
    try {
        whole.parse(copy);
    } catch (const InputError&) {
        is_good = false;
    }
    std::string_view left = copy;
    bool lines_are_good = true;
    try {
        while (!left.empty()) {
            by_line.parse(left.substr(0, line_bytes(left)));
            left.remove_prefix(line_bytes(left));
        }
    } catch (const InputError&) {
        lines_are_good = false;
    }
    REQUIRE(is_good == lines_are_good);
    if (!is_good) return 0;
    const VectorRows rows = whole.take();
    check_rows(rows, whole.vocabulary().size());
    REQUIRE(by_line.take().terms == rows.terms);
    check_round_trip(rows, whole.vocabulary());
    return 0;
}
