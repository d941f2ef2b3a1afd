// Several indexes searched as one, masks, and indexes of few documents.
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "check.hpp"
#include "make_index.hpp"
#include "search_variants.hpp"
#include "segmax/base/errors.hpp"
#include "segmax/index/documents.hpp"
#include "segmax/index/small_index.hpp"
#include "segmax/io/text.hpp"
#include "segmax/search/parts.hpp"
#include "segmax/search/search.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

/// Parts of every kind over one vocabulary, and the documents of all of them.
struct Mixed {
    struct Document {
        std::vector<std::uint64_t> codes;  // by term
        std::int64_t number;
        std::uint32_t part;
        Row row;
        bool allowed;
    };

    explicit Mixed(unsigned seed, bool wide) : random(seed) {
        const std::uint32_t sizes[] = {900, 0, 130, 7, 300};
        const auto all = std::accumulate(std::begin(sizes), std::end(sizes), 0U);
        std::vector<std::int64_t> drawn(2 * all);
        std::iota(drawn.begin(), drawn.end(), std::int64_t{1} << 40);
        std::shuffle(drawn.begin(), drawn.end(), random);
        const std::uint32_t few = draw(random, 0, 1) == 0 ? 2 : 255;  // few codes: ties everywhere
        std::size_t first = 0;
        for (std::uint32_t i = 0; i < std::size(sizes); ++i) {
            numbers.emplace_back(drawn.begin() + static_cast<std::ptrdiff_t>(first),
                                 drawn.begin() + static_cast<std::ptrdiff_t>(first + sizes[i]));
            std::sort(numbers.back().begin(), numbers.back().end());
            first += sizes[i];
            const Shape shape{.docs = sizes[i],
                              .terms = i == 2 ? kTerms / 2 : kTerms,
                              .clusters = 20,
                              .largest_code = wide && i % 2 == 0 ? 40'000 : few,
                              .head_ratio = i == 0 ? 1U : 8U,
                              .seed = seed + i};
            if (wide && i % 2 == 0) {
                add<std::uint16_t>(shape, i);
            } else {
                add<std::uint8_t>(shape, i);
            }
        }
        std::vector<std::uint32_t> largest(kTerms, 0);
        for (const Document& document : documents) {
            for (std::size_t t = 0; t < document.codes.size(); ++t) {
                largest[t] = std::max(largest[t], static_cast<std::uint32_t>(document.codes[t]));
            }
        }
        std::vector<double> scales(kTerms, 1.0);
        for (double& scale : scales) scale = seed % 2 == 0 ? 1.0 : 0.25 * static_cast<double>(draw(random, 1, 9));
        lattice.emplace(scales, largest, wide);
        for (const Part& part : parts) lattice->check(*part.index);
    }

    template <class Code>
    void add(const Shape& shape, std::uint32_t number) {
        Collection<Code> docs = random_collection<Code>(shape);
        const Index* index = nullptr;
        if (number % 3 == 0) {
            index = &whole<Code>().emplace_back(docs).index;
        } else {
            index = &*small<Code>().emplace_back(docs, shape.head_ratio).index;
        }
        parts.push_back({index, numbers.back()});
        std::vector<bool> allowed(docs.num_docs(), true);
        const auto share = draw(random, 0, 9);
        if (number % 2 == 0) {
            for (auto&& row : allowed) row = draw(random, 0, 9) < share;
            masks.push_back(make_mask(*index, [&](Row row) { return allowed[row]; }));
        } else {
            masks.push_back(nullptr);
        }
        for (Row row = 0; row < docs.num_docs(); ++row) {
            std::vector<std::uint64_t> codes(kTerms, 0);
            docs.each_entry(row, [&](std::uint32_t term, Code code) { codes[term] = code; });
            documents.push_back({codes, numbers.back()[row], number, row, allowed[row]});
        }
    }

    template <class Code>
    std::deque<Indexed<Code>>& whole() {
        if constexpr (sizeof(Code) == 1) {
            return whole8;
        } else {
            return whole16;
        }
    }
    template <class Code>
    std::deque<Small<Code>>& small() {
        if constexpr (sizeof(Code) == 1) {
            return small8;
        } else {
            return small16;
        }
    }

    /// Score, number, part and row of every result, by definition.
    using Hits = std::vector<std::tuple<std::uint64_t, std::int64_t, std::uint32_t, Row>>;
    Hits best(const PreparedQuery& query, bool masked) const {
        Hits hits;
        for (const Document& document : documents) {
            std::uint64_t score = 0;
            for (const QueryTerm& t : query.terms) score += t.weight * document.codes[t.term];
            if (score == 0 || (masked && !document.allowed)) continue;
            hits.emplace_back(score, document.number, document.part, document.row);
        }
        std::sort(hits.begin(), hits.end(), [](auto& a, auto& b) {
            return std::pair(std::get<0>(b), std::get<1>(a)) < std::pair(std::get<0>(a), std::get<1>(b));
        });
        return hits;
    }

    PreparedQuery query(std::size_t num_terms, bool whole_weights) {
        std::vector<std::int64_t> terms;
        std::vector<double> weights;
        for (std::size_t i = 0; i < num_terms; ++i) {
            terms.push_back(static_cast<std::int64_t>(draw(random, 0, kTerms + 2)));
            weights.push_back(static_cast<double>(draw(random, 1, 30)) * (whole_weights ? 1.0 : 0.37));
        }
        return segmax::prepare_query(*lattice, terms, weights);
    }

    static constexpr std::uint32_t kTerms = 60;
    Random random;
    std::deque<Indexed<std::uint8_t>> whole8;
    std::deque<Indexed<std::uint16_t>> whole16;
    std::deque<Small<std::uint8_t>> small8;
    std::deque<Small<std::uint16_t>> small16;
    std::deque<std::vector<std::int64_t>> numbers;
    std::vector<Part> parts;
    PartMasks masks;
    std::vector<Document> documents;
    std::optional<Lattice> lattice;
};

Mixed::Hits hits_of(const PartsResult& result) {
    Mixed::Hits hits;
    for (const PartHit& hit : result.hits) hits.emplace_back(hit.score, hit.number, hit.part, hit.row);
    return hits;
}

Mixed::Hits first(Mixed::Hits hits, std::size_t k) {
    hits.resize(std::min(k, hits.size()));
    return hits;
}

}  // namespace

// Every safe variant returns the best documents of all parts, in order, ties included, with masks and without.
TEST(parts_equal_brute_force) {
    for (const bool wide : {false, true}) {
        for (unsigned seed = 1; seed <= 4; ++seed) {
            Mixed mixed(10 * seed + (wide ? 1 : 0) + seed, wide);
            for (const std::size_t terms : {1, 5, 25}) {
                const PreparedQuery query = mixed.query(terms, terms != 5);
                for (const bool masked : {false, true}) {
                    const Mixed::Hits expected = mixed.best(query, masked);
                    for (const SearchParams& params : safe_variants()) {
                        for (const std::size_t k : {1, 10, 400, 5000}) {
                            NOTE("wide " << wide << ", seed " << seed << ", terms " << terms << ", masked " << masked
                                         << ", k " << k << ", " << describe(params));
                            const PartsResult result =
                                search_parts(mixed.parts, masked ? mixed.masks : PartMasks(), query, k, params);
                            CHECK(hits_of(result) == first(expected, k));
                            CHECK_EQ(result.stats.budget_hit, 0U);
                        }
                    }
                }
            }
        }
    }
}

// Above a floor, every safe variant returns what brute force over all parts does: ties with it where it is a score,
// also those of a part that scores no more, and only more where it lies between two scores.
TEST(parts_with_floors) {
    std::uint64_t ties_with_ceilings = 0;
    for (unsigned seed = 1; seed <= 5; ++seed) {
        Mixed mixed(seed, seed % 2 == 0);
        const bool masked = seed == 3;
        for (const std::size_t terms : {1, 1, 4}) {
            const PreparedQuery query = mixed.query(terms, true);
            const Mixed::Hits all = mixed.best(query, masked);
            std::vector<std::uint64_t> ceilings;
            for (const Part& part : mixed.parts) ceilings.push_back(most_of(*part.index, query));
            std::vector<std::uint64_t> floors = ceilings;
            if (all.size() > 20) floors.push_back(std::get<0>(all[20]));
            for (const std::uint64_t floor : floors) {
                if (floor == 0) continue;
                Mixed::Hits above;
                for (const auto& hit : all) {
                    const auto& [score, number, part, row] = hit;
                    if (score >= floor) above.push_back(hit);
                    ties_with_ceilings += score == floor && score == ceilings[part] ? 1 : 0;
                }
                for (SearchParams params : safe_variants()) {
                    for (const double below : {0.0, 0.5}) {
                        params.floor = Floor{(static_cast<double>(floor) - below) * query.scale, kNoRow};
                        for (const std::size_t k : {3, 5000}) {
                            NOTE("seed " << seed << ", terms " << terms << ", k " << k << ", " << describe(params));
                            const PartsResult result =
                                search_parts(mixed.parts, masked ? mixed.masks : PartMasks(), query, k, params);
                            CHECK(hits_of(result) == first(above, k));
                        }
                    }
                }
            }
        }
    }
    CHECK(ties_with_ceilings > 0);
}

// A limit of clusters holds for all parts together: the best of their clusters answer, whatever part they are of.
TEST(parts_share_max_clusters) {
    std::size_t num_missing = 0, num_complete = 0;
    for (unsigned seed = 1; seed <= 6; ++seed) {
        Mixed mixed(seed, seed % 2 == 0);
        const bool masked = seed % 3 == 0;
        const PartMasks masks = masked ? mixed.masks : PartMasks(mixed.parts.size());
        for (const std::size_t terms : {1, 4, 20}) {
            const PreparedQuery query = mixed.query(terms, true);
            const Mixed::Hits all = mixed.best(query, masked);
            for (const std::uint32_t max_clusters : {1U, 2U, 8U, 20U, 1000U}) {
                for (const std::size_t k : {1, 10, 400}) {
                    SearchParams params = variant(Method::asc, false);
                    params.hooks.list_masked = false;
                    params.max_clusters = max_clusters;
                    NOTE("seed " << seed << ", terms " << terms << ", clusters " << max_clusters << ", k " << k);
                    const PartsResult result = search_parts(mixed.parts, masks, query, k, params);
                    // Those of the parts that can score most come first where bounds are equal.
                    std::vector<std::uint32_t> order(mixed.parts.size());
                    std::iota(order.begin(), order.end(), 0U);
                    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
                        return most_of(*mixed.parts[a].index, query) > most_of(*mixed.parts[b].index, query);
                    });
                    std::vector<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>> clusters;
                    for (const std::uint32_t part : order) {
                        params.mask = masks[part];
                        const auto bounds = max_bounds(*mixed.parts[part].index, query, params, gate_mass(params));
                        for (std::uint32_t c = 0; c < bounds.size(); ++c) {
                            if (bounds[c] > 0) clusters.emplace_back(bounds[c], part, c);
                        }
                    }
                    std::stable_sort(clusters.begin(), clusters.end(),
                                     [](auto& a, auto& b) { return std::get<0>(a) > std::get<0>(b); });
                    clusters.resize(std::min<std::size_t>(clusters.size(), max_clusters));
                    Mixed::Hits within;
                    for (const auto& hit : all) {
                        const Index& index = *mixed.parts[std::get<2>(hit)].index;
                        const std::uint32_t cluster = index.cluster_of(positions_of_rows(index)[std::get<3>(hit)]);
                        const bool is_chosen = std::any_of(clusters.begin(), clusters.end(), [&](auto& one) {
                            return std::get<1>(one) == std::get<2>(hit) && std::get<2>(one) == cluster;
                        });
                        if (is_chosen) within.push_back(hit);
                    }
                    const Mixed::Hits expected = first(within.size() >= k ? within : all, k);
                    CHECK(hits_of(result) == expected);
                    if (result.stats.budget_hit == 0) CHECK(hits_of(result) == first(all, k));
                    num_missing += hits_of(result) == first(all, k) ? 0 : 1;
                    num_complete += result.stats.budget_hit == 0 && max_clusters < 20 ? 1 : 0;
                    const SearchStats& stats = result.stats;
                    std::uint64_t num_clusters = 0;
                    for (const Part& part : mixed.parts) num_clusters += part.index->num_clusters();
                    CHECK_EQ(stats.clusters_visited + stats.clusters_pruned + stats.clusters_tied +
                                 stats.clusters_stopped + stats.clusters_limited + stats.clusters_zero,
                             num_clusters);
                }
            }
        }
    }
    CHECK(num_missing > 20 && num_complete > 0);
}

// A part is searched only if it can reach the floor; one that scores exactly as much is, unless ties with it lose.
TEST(parts_below_a_floor_are_not_searched) {
    Mixed mixed(4, false);
    std::uint64_t searched = 0;
    for (int round = 0; round < 30; ++round) {
        const PreparedQuery query = mixed.query(1, true);
        for (const Part& part : mixed.parts) {
            const std::uint64_t most = most_of(*part.index, query);
            if (most == 0) continue;
            for (const double above : {-1.0, 0.0, 0.5, 1.0}) {  // of 0.5, the floor in integers is `most` without ties
                SearchParams params = with_method(Method::exhaustive);
                params.floor = Floor{(static_cast<double>(most) + above) * query.scale, kNoRow};
                const PartsResult result = search_parts(std::span(&part, 1), {}, query, 10, params);
                CHECK_EQ(result.stats.docs_scored, above <= 0 ? part.index->num_docs() : 0U);
                CHECK_EQ(result.stats.clusters_stopped, above <= 0 ? 0U : part.index->num_clusters());
                CHECK_EQ(result.hits.empty(), above > 0);
                searched += above <= 0 ? 1 : 0;
            }
        }
    }
    CHECK(searched > 0);
}

// A part that can only tie with the k-th result so far is searched if it has a document with a smaller number, and only
// then.
TEST(parts_that_can_only_tie_are_searched_for_smaller_numbers) {
    std::array<std::uint64_t, 2> seen{};
    for (unsigned seed = 1; seed <= 12; ++seed) {
        Mixed mixed(seed, false);
        const PreparedQuery query = mixed.query(1, true);
        for (const Part& one : mixed.parts) {
            for (const Part& other : mixed.parts) {
                const std::uint64_t most = most_of(*one.index, query);
                if (&one == &other || most == 0 || most != most_of(*other.index, query)) continue;
                const SearchParams params = with_method(Method::exhaustive);
                const std::int64_t best = search_parts(std::span(&one, 1), {}, query, 1, params).hits.at(0).number;
                const bool matters = other.numbers.front() < best;
                const std::array<Part, 2> both{one, other};
                const PartsResult result = search_parts(both, {}, query, 1, params);
                CHECK_EQ(result.stats.docs_scored, one.index->num_docs() + (matters ? other.index->num_docs() : 0U));
                ++seen[matters ? 1 : 0];
            }
        }
    }
    CHECK(seen[0] > 0 && seen[1] > 0);
}

// No parts, and parts of which nothing may be returned, answer with nothing, and still count the query's terms.
TEST(parts_may_have_nothing) {
    Mixed mixed(5, false);
    const PreparedQuery query = mixed.query(40, true);
    CHECK(search_parts({}, {}, query, 10, SearchParams()).hits.empty());
    PartMasks none;
    for (const Part& part : mixed.parts) none.push_back(make_mask(*part.index, [](Row) { return false; }));
    const PartsResult result = search_parts(mixed.parts, none, query, 10, SearchParams());
    CHECK(result.hits.empty());
    CHECK_EQ(result.stats.unknown_terms, query.unknown_terms);
    CHECK_EQ(result.stats.budget_hit, 0U);
}

// What has been looked at counts for all parts, wherever a budget ends, and nothing that is returned is made up.
TEST(parts_share_limits) {
    Mixed mixed(8, false);
    std::uint64_t limited = 0;
    for (int round = 0; round < 10; ++round) {
        const PreparedQuery query = mixed.query(20, true);
        const Mixed::Hits all = mixed.best(query, false);
        for (const std::uint32_t most : {1U, 3U, 20U, 60U, 1000U}) {
            SearchParams params;
            params.max_blocks = most;
            const PartsResult result = search_parts(mixed.parts, {}, query, 10, params);
            CHECK(result.stats.blocks_scored <= most);
            limited += result.stats.budget_hit;
            if (result.stats.budget_hit == 0) CHECK(hits_of(result) == first(all, 10));
        }
        for (int looks = 1; looks < 25; ++looks) {
            SearchParams params;
            params.hooks.sweep = false;
            params.budget_ms = 1000;
            auto left = std::make_shared<int>(looks);
            params.hooks.clock = [left] { return std::uint64_t{--*left < 0 ? 3'600'000'000'000U : 0U}; };
            const PartsResult result = search_parts(mixed.parts, {}, query, 10, params);
            limited += result.stats.budget_hit;
            CHECK(!result.hits.empty());
            for (const auto& hit : hits_of(result)) CHECK(std::find(all.begin(), all.end(), hit) != all.end());
            if (result.stats.budget_hit == 0) CHECK(hits_of(result) == first(all, 10));
        }
        for (const Method method : {Method::anytime, Method::sequential}) {
            SearchParams params = with_method(method);
            params.max_clusters = 3;
            const PartsResult result = search_parts(mixed.parts, {}, query, 10, params);
            CHECK(result.stats.clusters_visited <= 3);
            limited += result.stats.budget_hit;
        }
    }
    CHECK(limited > 0);
}

// A lattice refuses impossible numbers, and indexes with codes that it rules out.
TEST(lattice_checks_itself_and_indexes) {
    CHECK_THROWS(Lattice({1.0, 0.0}, {1, 1}, false), std::invalid_argument);
    CHECK_THROWS(Lattice({1.0}, {1, 1}, false), std::invalid_argument);
    CHECK_THROWS(Lattice({1.0}, {256}, false), std::invalid_argument);
    CHECK_THROWS(Lattice({1.0}, {65'536}, true), std::invalid_argument);
    const Lattice good({0.0, 2.0}, {0, 255}, false);
    CHECK(!good.knows(0) && good.knows(1) && !good.knows(2) && !good.knows(-1));
    const Indexed<std::uint8_t> made(random_collection<std::uint8_t>({}));
    Lattice(made.index).check(made.index);
    std::vector<std::uint32_t> largest;
    for (std::uint32_t t = 0; t < made.index.num_terms(); ++t) largest.push_back(made.index.largest_code(t));
    const std::vector<double> scales(largest.size(), 1.0);
    largest[5] -= 1;
    CHECK_THROWS(Lattice(scales, largest, false).check(made.index), FormatError);
    largest.resize(5);
    CHECK_THROWS(Lattice({1, 1, 1, 1, 1}, largest, false).check(made.index), FormatError);
}

// A mask allows exactly the rows that were asked for, however few, and counts them and their blocks.
TEST(masks_of_every_share) {
    Random random(4);
    for (const std::uint32_t docs : {1U, 8U, 37U, 3000U}) {
        const Indexed<std::uint8_t> made(random_collection<std::uint8_t>({.docs = docs, .clusters = 30}));
        for (const std::uint64_t percent : {0U, 1U, 10U, 40U, 90U, 99U, 100U}) {
            std::vector<bool> allowed(docs);
            for (Row row = 0; row < docs; ++row) allowed[row] = draw(random, 0, 99) < percent;
            const auto mask = make_mask(made.index, [&](Row row) { return allowed[row]; });
            std::uint32_t count = 0;
            std::uint32_t blocks = 0;
            for (Position p = 0; p < made.index.num_positions(); ++p) {
                const Row row = made.index.row_at(p);
                CHECK_EQ(mask->allows(p), row != kNoRow && allowed[row]);
                count += mask->allows(p) ? 1 : 0;
                if (p % kBlockDocs == 0) blocks += mask->blocks()[p / kBlockDocs] != 0 ? 1 : 0;
            }
            CHECK_EQ(mask->count(), count);
            CHECK_EQ(mask->num_used_blocks(), blocks);
        }
    }
}

// Looking at all documents that a mask allows returns what bounds would, for any factors, with floors and ties.
TEST(masks_of_few_documents_are_listed) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(random_collection<Code>(
            {.docs = 6000, .terms = 90, .clusters = 60, .largest_code = 3, .head_ratio = 2, .seed = 5}));
        Random random(6);
        std::uint64_t fewer = 0;
        for (int round = 0; round < 60; ++round) {
            const PreparedQuery query =
                random_query(made.index, random, draw(random, 1, 30), round % 2 == 0 ? 3 : kMaxQueryWeight);
            const std::uint64_t rare = draw(random, 1, 3000);
            std::vector<bool> allowed(6000);
            for (Row row = 0; row < 6000; ++row) allowed[row] = draw(random, 0, rare) == 0;
            SearchParams params;
            params.hooks.sweep = false;
            params.hooks.all_tiles = round % 3 == 0 ? 0 : 2048;
            params.mask = make_mask(made.index, [&](Row row) { return allowed[row]; });
            const std::vector<std::uint64_t> scores = made.docs.scores(query);
            std::vector<std::uint64_t> masked = scores;
            for (Row row = 0; row < 6000; ++row) masked[row] = allowed[row] ? scores[row] : 0;
            const Ranking ranking = rank_all(masked);
            for (const std::size_t k : {1, 10, 100}) {
                for (const auto& [mu, eta] : {std::pair(1.0, 1.0), std::pair(0.5, 0.6)}) {
                    params.mu = mu;
                    params.eta = eta;
                    const bool exact = eta == 1.0;
                    NOTE("round " << round << ", k " << k << ", " << describe(params));
                    params.hooks.list_masked = true;
                    const SearchResult listed = search(made.index, query, k, params);
                    params.hooks.list_masked = false;
                    const SearchResult bounded = search(made.index, query, k, params);
                    const bool was_listed = listed.stats.blocks_scored == params.mask->num_used_blocks();
                    if (exact || was_listed) CHECK_EQ(listed.rows, ranking.first(k).rows);
                    if (exact || was_listed) CHECK_EQ(listed.scores, ranking.first(k).scores);
                    if (exact) CHECK_EQ(bounded.rows, listed.rows);
                    fewer += was_listed && bounded.stats.blocks_scored < listed.stats.blocks_scored ? 1 : 0;
                }
            }
            // The paper's methods and exhaustive search have no list, and agree.
            for (const Method method : {Method::exhaustive, Method::maxscore, Method::anytime, Method::sequential}) {
                SearchParams other = with_method(method);
                other.mask = params.mask;
                CHECK_EQ(search(made.index, query, 10, other).rows, ranking.first(10).rows);
            }
        }
        CHECK(fewer > 0);
    });
}

// Documents come back from any range of positions, those of damaged postings without harm (search_survives_damage).
TEST(documents_of_a_range) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(random_collection<Code>(
            {.docs = 20'000, .terms = 300, .clusters = 300, .largest_code = 250, .head_ratio = 2, .seed = 9}));
        Random random(10);
        for (int round = 0; round < 20; ++round) {
            const auto end = made.index.num_positions();
            const auto a = static_cast<Position>(draw(random, 0, end));
            const auto b = static_cast<Position>(draw(random, 0, end));
            const Position low = round == 0 ? 0 : std::min(a, b);
            const Position high = round == 0 ? end : std::max(a, b);
            const DocumentRange<Code> found = document_range<Code>(made.index, low, high);
            std::size_t at = 0;
            for (Position p = low; p < high; ++p) {
                const Row row = made.index.row_at(p);
                if (row == kNoRow) continue;
                CHECK_EQ(found.rows[at], row);
                auto i = static_cast<std::size_t>(found.indptr[at]);
                made.docs.each_entry(row, [&](std::uint32_t term, Code own) {
                    CHECK_EQ(found.terms[i], term);
                    CHECK_EQ(found.codes[i++], own);
                });
                CHECK_EQ(i, static_cast<std::size_t>(found.indptr[++at]));
            }
            CHECK_EQ(found.rows.size(), at);
        }
    });
}

// A small index is one that every method searches right; its documents keep their order.
TEST(small_indexes_are_searched_like_others) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        for (const std::uint32_t docs : {0U, 1U, 9U, 1024U, 1025U, 3000U}) {
            const Collection<Code> collection = random_collection<Code>(
                {.docs = docs, .terms = 80, .largest_code = std::numeric_limits<Code>::max(), .seed = docs});
            const Small<Code> small(collection, 8);
            for (Row row = 0; row < docs; ++row) CHECK_EQ(small.index->row_at(row), row);
            Random random(docs);
            for (const std::size_t terms : {1, 12}) {
                const PreparedQuery query = random_query(*small.index, random, terms, 50);
                const Ranking ranking = rank_all(collection.scores(query));
                for (const SearchParams& params : safe_variants()) {
                    check_result(*small.index, query, ranking, 10, params);
                }
            }
        }
    });
    Collection<std::uint8_t> bad;
    bad.num_terms = 3;
    bad.add_entry(3, 1);
    bad.end_document(0, 0);
    CHECK_THROWS(small_index(bad.docs(), 8), std::invalid_argument);
    bad.terms[0] = 2;
    bad.codes[0] = 0;
    CHECK_THROWS(small_index(bad.docs(), 8), std::invalid_argument);
}

// Hashes never change: files hold them.
TEST(texts_have_stable_hashes) {
    CHECK_EQ(stable_hash(""), 0x17FB89EE9DCAB42AU);
    CHECK_EQ(stable_hash("doc-17"), 0x3E0647FFD135F243U);
    CHECK_EQ(stable_hash("a longer text, of several rounds"), 0xCA08175352BBC21EU);
}
