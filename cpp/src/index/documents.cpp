#include "segmax/index/documents.hpp"

#include "index/term_view.hpp"

namespace segmax {

std::vector<Position> positions_of_rows(const Index& index) {
    std::vector<Position> positions(index.num_docs());
    for (Position p = 0; p < index.num_positions(); ++p) {
        if (index.row_at(p) != kNoRow) positions[index.row_at(p)] = p;
    }
    return positions;
}

namespace {

struct Entry {
    std::uint32_t term;
    std::uint32_t code;
};

/// The index has no list of terms per document: every term is asked for its code at these positions.
template <class Code>
std::vector<std::vector<Entry>> entries_of(const Index& index, std::span<const Position> positions) {
    std::vector<std::vector<Entry>> entries(positions.size());
    std::vector<EntryList<Code>> zones(index.num_zones());
    TermView<Code> term;
    for (std::uint32_t t = 0; t < index.num_terms(); ++t) {
        if (index.num_postings(t) == 0) continue;
        term.open(index, t, 1, zones.data());
        for (std::size_t i = 0; i < positions.size(); ++i) {
            const std::uint32_t code = term.code_at(positions[i]);
            if (code > 0) entries[i].push_back({t, code});
        }
    }
    return entries;
}

}  // namespace

DocumentVectors document_vectors(const Index& index, std::span<const Position> positions) {
    const auto entries = index.arrays().code_bytes == 1 ? entries_of<std::uint8_t>(index, positions)
                                                        : entries_of<std::uint16_t>(index, positions);
    DocumentVectors out;
    out.indptr.push_back(0);
    for (const auto& document : entries) {
        for (const Entry& entry : document) {
            out.terms.push_back(entry.term);
            out.codes.push_back(entry.code);
        }
        out.indptr.push_back(static_cast<std::int64_t>(out.terms.size()));
    }
    return out;
}

}  // namespace segmax
