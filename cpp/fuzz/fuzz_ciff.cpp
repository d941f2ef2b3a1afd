// CIFF: rows or InputError, the same in whatever pieces the file comes. The first two bytes say how it is cut.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "segmax/io/ciff.hpp"
#include "segmax/io/errors.hpp"

namespace {

using namespace segmax;

constexpr std::uint64_t kMostBuckets = 64;

/// The rows of all buckets, as io/ciff.py reads them: a header that promises more documents than bytes is refused.
std::optional<std::vector<VectorRows>> read(const std::string& file, std::size_t piece, std::uint64_t num_buckets) {
    try {
        CiffParser parser(16);
        std::uint64_t bucket_docs = 0;
        std::vector<std::string> buckets;
        const auto keep = [&] {
            for (const CiffBlock& block : parser.take_blocks()) {
                REQUIRE(block.bucket < buckets.size());
                buckets[block.bucket] += block.bytes;
            }
        };
        for (std::size_t at = 0; at < file.size(); at += piece) {
            const bool had_header = parser.has_header();
            parser.feed(std::string_view(file).substr(at, piece));
            if (!had_header && parser.has_header()) {
                const std::uint64_t docs = std::max<std::uint64_t>(1, parser.header().num_docs);
                if (docs > file.size()) return std::nullopt;
                bucket_docs = (docs + num_buckets - 1) / num_buckets;
                buckets.resize((docs + bucket_docs - 1) / bucket_docs);
                parser.set_bucket_docs(bucket_docs);
                parser.feed("");
            }
            keep();
        }
        parser.finish();
        keep();
        const std::uint64_t docs = parser.header().num_docs;
        std::vector<VectorRows> found;
        for (std::uint64_t first = 0; first < docs; first += bucket_docs) {
            const std::uint64_t count = std::min(bucket_docs, docs - first);
            found.push_back(read_ciff_bucket(buckets[first / bucket_docs], first, count));
            const VectorRows& rows = found.back();
            REQUIRE(rows.indptr.size() == count + 1 && rows.indptr.front() == 0);
            REQUIRE(std::is_sorted(rows.indptr.begin(), rows.indptr.end()));
            REQUIRE(static_cast<std::size_t>(rows.indptr.back()) == rows.terms.size());
            for (const std::uint32_t term : rows.terms) REQUIRE(term < parser.terms().size());
        }
        for (std::uint64_t row = 0; row < docs; ++row) REQUIRE(is_utf8(parser.doc_id(row)));
        return found;
    } catch (const InputError&) {
        return std::nullopt;
    }
}

template <class T, class Part>
std::vector<T> joined(const std::vector<VectorRows>& buckets, Part part) {
    std::vector<T> all;
    for (const VectorRows& rows : buckets) all.insert(all.end(), part(rows).begin(), part(rows).end());
    return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const std::size_t piece = 1U + input.take<std::uint8_t>();
    const std::uint64_t num_buckets = 1U + input.take<std::uint8_t>() % kMostBuckets;
    const std::string file(input.rest());
    const auto pieces = read(file, piece, num_buckets);
    const auto whole = read(file, std::max<std::size_t>(1, file.size()), 1);
    REQUIRE(pieces.has_value() == whole.has_value());
    if (!whole) {
        // A bucket that is kept on disk may be damaged, too.
        try {
            read_ciff_bucket(file, 5, std::min<std::size_t>(piece, 64));
        } catch (const InputError&) {
        }
        return 0;
    }
    const auto terms = [](const VectorRows& rows) -> auto& { return rows.terms; };
    const auto weights = [](const VectorRows& rows) -> auto& { return rows.weights; };
    REQUIRE(joined<std::uint32_t>(*pieces, terms) == joined<std::uint32_t>(*whole, terms));
    REQUIRE(joined<double>(*pieces, weights) == joined<double>(*whole, weights));
    return 0;
}
