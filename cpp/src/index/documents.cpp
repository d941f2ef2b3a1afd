#include "segmax/index/documents.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

/// Transposes a piece of an index: terms with their documents become documents with their terms. Twice through the
/// postings of the piece, first to count, then to fill in.
template <class Code>
class Transposed {
public:
    Transposed(const Index& index, DocumentRange<Code>& out)
        : index_(index), out_(out), zones_(index.num_zones()), places_(kPieceDocs) {}

    static constexpr Position kPieceDocs = 16384;

    /// Appends the documents at positions [first, last), a piece at most.
    void append(Position first, Position last) {
        first_ = first;
        last_ = last;
        const auto rows = index_.arrays().position_row.subspan(first, last - first);
        for (std::size_t i = 0; i < rows.size(); ++i) places_[i] = {rows[i] == kNoRow ? kHole : kNoTerm, 0};
        each_posting([](Place& place, std::uint32_t, Code) { ++place.at; });
        std::uint64_t at = out_.terms.size();
        for (std::size_t i = 0; i < rows.size(); ++i) {
            if (rows[i] == kNoRow) continue;
            const std::uint64_t count = places_[i].at;
            places_[i] = {kNoTerm, at};
            at += count;
            out_.rows.push_back(rows[i]);
            out_.indptr.push_back(static_cast<std::int64_t>(at));
        }
        out_.terms.resize(at);
        out_.codes.resize(at);
        each_posting([&](Place& place, std::uint32_t term, Code code) {
            if (place.at >= out_.terms.size()) return;  // the file changed between the passes
            out_.terms[place.at] = term;
            out_.codes[place.at] = code;
            ++place.at;
        });
    }

private:
    static constexpr std::uint64_t kNoTerm = 0xFFFFFFFFFFFFFFFFU;
    static constexpr std::uint64_t kHole = kNoTerm - 1;

    /// A position: the last term that it was met with, then the number of its terms, or where the next one goes.
    struct Place {
        std::uint64_t last_term = kHole;
        std::uint64_t at = 0;
    };

    /// Calls visit(place, term, code) for every term and document, terms ascending. Only damage gives a hole postings,
    /// a document a term twice, or a code of 0: these are left out.
    template <class Visit>
    void each_posting(Visit visit) {
        TermView<Code> term;
        const Position begin = first_ / kBlockDocs * kBlockDocs;
        const Position end = (last_ + kBlockDocs - 1) / kBlockDocs * kBlockDocs;
        for (std::uint32_t t = 0; t < index_.num_terms(); ++t) {
            if (index_.num_postings(t) == 0) continue;
            term.open(index_, t, 1, zones_.data());
            term.each_posting(begin, end, [&](Position position, Code code) {
                if (position < first_ || position >= last_ || code == 0) return;
                Place& place = places_[position - first_];
                if (place.last_term == kHole || place.last_term == t) return;
                place.last_term = t;
                visit(place, t, code);
            });
        }
    }

    const Index& index_;
    DocumentRange<Code>& out_;
    std::vector<EntryList<Code>> zones_;
    std::vector<Place> places_;
    Position first_ = 0, last_ = 0;
};

}  // namespace

template <class Code>
DocumentRange<Code> document_range(const Index& index, Position first, Position last) {
    assert(first <= last && last <= index.num_positions() && index.arrays().code_bytes == sizeof(Code));
    DocumentRange<Code> out;
    out.indptr.push_back(0);
    Transposed<Code> transposed(index, out);
    while (first < last) {
        const Position end = first + std::min(last - first, Transposed<Code>::kPieceDocs);
        transposed.append(first, end);
        first = end;
    }
    return out;
}

template DocumentRange<std::uint8_t> document_range(const Index&, Position, Position);
template DocumentRange<std::uint16_t> document_range(const Index&, Position, Position);

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
