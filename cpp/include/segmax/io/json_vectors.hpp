// Vectors as lines of JSON, in and out: {"id": "d1", "vector": {"term": 1.5, ...}, ...}.
//
// Anserini, Pyserini and Seismic read and write this format. Members that mean nothing here, such as contents, are
// skipped, but they must be JSON.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "segmax/io/text.hpp"

namespace segmax {

/// Some rows: ids, and CSR arrays.
struct VectorRows {
    TextList ids;
    std::vector<std::int64_t> indptr{0};
    std::vector<std::uint32_t> terms;
    std::vector<double> weights;
};

/// Reads lines; terms are numbered as they come, over all lines and files.
class JsonVectorParser {
public:
    /// Takes lines in; the last one may lack its line feed, so `text` must end where a line does. Blank lines are
    /// skipped. Throws InputError with the number of the line and the byte in it.
    void parse(std::string_view text);
    /// The rows since the last call.
    VectorRows take();
    /// Lines are counted from 1 again.
    void start_file() { line_ = 0; }
    const Vocabulary& vocabulary() const { return vocabulary_; }

private:
    struct Line;
    void parse_line(std::string_view text);
    void read_member(Line& line);
    void read_id(Line& line);
    void read_vector(Line& line);
    std::uint32_t read_term(Line& line);
    void read_weight(Line& line, std::uint32_t term);

    Vocabulary vocabulary_;
    std::vector<std::uint64_t> last_row_;  // per term: the last row, counted from 1, that has it
    std::uint64_t row_ = 0;
    std::uint64_t line_ = 0;
    VectorRows rows_;
    std::string scratch_;
};

/// Writes lines.
class JsonVectorFormatter {
public:
    /// The next term, in UTF-8.
    void add_term(std::string_view term);
    std::size_t num_terms() const { return terms_.size(); }
    /// Appends a line. `terms` must have been added; weights are finite. Whole numbers are written as such, others so
    /// that reading gives the same double. An id that is a plain whole number is written as one if `numbers`.
    void append(std::string_view id, bool numbers, std::span<const std::uint32_t> terms,
                std::span<const double> weights, std::string& out) const;

private:
    TextList terms_;  // as JSON strings, with a colon behind
};

}  // namespace segmax
