// The arrays of an index, whatever is in them: opening throws FormatError, or every method searches inside of them.
//
//   seed u4 | num_docs, num_terms, num_segments, code_bytes, head_ratio u4 | the bytes of every array u4, in the order
//   of SEGMAX_COMPONENTS | the arrays
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "../tests/make_index.hpp"
#include "../tests/search_variants.hpp"
#include "fuzz.hpp"
#include "segmax/base/errors.hpp"
#include "segmax/index/documents.hpp"
#include "segmax/search/lattice.hpp"
#include "segmax/search/parts.hpp"
#include "segmax/search/search.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

constexpr std::uint32_t kMostSegments = 65'535;
constexpr std::uint64_t kMostClusterSegments = 1U << 14U;  // storage/reading.py allows more, which is slow to search
constexpr int kSearches = 6;

/// Arrays and what keeps them alive.
struct Given {
    IndexArrays view;
    std::vector<std::unique_ptr<fuzz::OwnedArray>> owned;

    explicit Given(fuzz::Input& input) {
        view.num_docs = input.take<std::uint32_t>();
        view.num_terms = input.take<std::uint32_t>();
        view.num_segments = input.take<std::uint32_t>();
        view.code_bytes = input.take<std::uint32_t>();
        view.head_ratio = input.take<std::uint32_t>();
        std::vector<std::uint32_t> sizes;
#define SEGMAX_SIZE(name, entry, check) sizes.push_back(input.take<std::uint32_t>());
        SEGMAX_COMPONENTS(SEGMAX_SIZE)
#undef SEGMAX_SIZE
        using Code = IndexArrays::Code;
#define SEGMAX_TAKE(name, entry, check)                                                        \
    owned.push_back(std::make_unique<fuzz::OwnedArray>(input.take_text(sizes[owned.size()]))); \
    view.name = owned.back()->as<entry>();
        SEGMAX_COMPONENTS(SEGMAX_TAKE)
#undef SEGMAX_TAKE
    }

    /// What Python checks before the core sees the arrays, and what can be searched quickly.
    bool is_within_limits() const {
        return view.num_segments <= kMostSegments &&
               view.cluster_num_docs.size() * view.num_segments <= kMostClusterSegments;
    }
};

/// At most k rows of the index, best first.
void check_result(const Index& index, const SearchResult& result, std::size_t k) {
    REQUIRE(result.rows.size() <= k && result.rows.size() == result.scores.size());
    for (const Row row : result.rows) REQUIRE(row < index.num_docs());
    REQUIRE(std::is_sorted(result.scores.rbegin(), result.scores.rend()));
}

/// Documents have ascending terms and positive codes.
template <class Code>
void check_documents(const Index& index) {
    const DocumentRange<Code> found = document_range<Code>(index, 0, index.num_positions());
    REQUIRE(found.rows.size() == index.num_docs() && found.indptr.size() == found.rows.size() + 1);
    REQUIRE(static_cast<std::size_t>(found.indptr.back()) == found.terms.size());
    for (const Code code : found.codes) REQUIRE(code > 0);
    for (std::size_t row = 0; row < found.rows.size(); ++row) {
        const auto first = found.terms.begin() + found.indptr[row];
        const auto last = found.terms.begin() + found.indptr[row + 1];
        REQUIRE(std::adjacent_find(first, last, std::greater_equal<>()) == last);
        REQUIRE(std::all_of(first, last, [&](std::uint32_t term) { return term < index.num_terms(); }));
    }
}

SearchParams random_params(const Index& index, Random& random) {
    static const std::vector<SearchParams> variants = safe_variants();
    SearchParams params = variants[draw(random, 0, variants.size() - 1)];
    std::tie(params.mu, params.eta) = kFactors[draw(random, 0, std::size(kFactors) - 1)];
    if (index.num_positions() > 0) params.watch = static_cast<Position>(draw(random, 0, index.num_positions() - 1));
    if (params.method == Method::asc && draw(random, 0, 2) == 0) {
        params.max_clusters = static_cast<std::uint32_t>(draw(random, 1, 9));
    }
    if (draw(random, 0, 2) == 0) {
        params.mask = make_mask(index, [&, share = draw(random, 1, 8)](Row) { return draw(random, 0, 7) < share; });
    }
    if (draw(random, 0, 3) == 0) params.floor = Floor{static_cast<double>(draw(random, 1, 1000)), kNoRow};
    return params;
}

void search_index(const Index& index, Random& random) {
    const Lattice lattice(index);
    lattice.check(index);
    std::vector<std::int64_t> numbers(index.num_docs());
    std::iota(numbers.begin(), numbers.end(), 7);
    const std::vector<Part> parts{{&index, numbers}, {&index, numbers}};
    for (int i = 0; i < kSearches; ++i) {
        const PreparedQuery query = random_query(index, random, draw(random, 1, 30), i % 2 == 0 ? 50 : kMaxQueryWeight);
        const SearchParams params = random_params(index, random);
        const std::size_t k = draw(random, 0, 1) == 0 ? 3 : 60;
        check_result(index, search(index, query, k, params), k);
        REQUIRE(ceiling(index, query) <= query.max_score);
        if (params.mask == nullptr && !params.floor)
            REQUIRE(search_parts(parts, {}, query, k, params).hits.size() <= k);
        cluster_bounds(index, query);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    Random random(input.take<std::uint32_t>());
    const Given given(input);
    if (!given.is_within_limits()) return 0;
    std::optional<Index> index;
    try {
        index.emplace(given.view);
    } catch (const FormatError&) {
        return 0;
    }
    search_index(*index, random);
    if (given.view.code_bytes == 1) {
        check_documents<std::uint8_t>(*index);
    } else {
        check_documents<std::uint16_t>(*index);
    }
    std::vector<Position> positions(index->num_positions());
    std::iota(positions.begin(), positions.end(), Position{0});
    REQUIRE(document_vectors(*index, positions).indptr.size() == positions.size() + 1);
    return 0;
}
