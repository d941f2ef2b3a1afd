// Parts are asked in the order of what they can score at most, each with the k-th result of those before as its floor:
// the first usually finds nearly everything, and the others little more than that they have nothing to add.
#include "segmax/search/parts.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "search/cluster_gate.hpp"
#include "search/context.hpp"
#include "segmax/search/search.hpp"

namespace segmax {

namespace {

/// The factor that θ is divided by before bounds of documents are compared with it.
double bound_factor(const SearchParams& params) {
    switch (params.method) {
        case Method::asc:
        case Method::sequential:
            return params.eta;
        case Method::anytime:
            return params.mu;
        default:
            return 1.0;
    }
}

/// Adds what a part counted. What concerns the query is the same for all of them, and time is not the parts' to add up.
void add_stats(SearchStats& all, const SearchStats& part) {
    SearchStats sum = all;
#define SEGMAX_ADD(name, meaning) sum.name += part.name;
    SEGMAX_STATS(SEGMAX_ADD)
#undef SEGMAX_ADD
    sum.unknown_terms = all.unknown_terms;
    sum.dropped_terms = all.dropped_terms;
    sum.budget_hit = all.budget_hit | part.budget_hit;
    sum.swept = all.swept | part.swept;
    all = sum;
}

class PartsSearch {
public:
    PartsSearch(std::span<const Part> parts, std::span<const std::shared_ptr<const Mask>> masks,
                const PreparedQuery& query, std::size_t k, const SearchParams& params)
        : parts_(parts), masks_(masks), query_(query), k_(k), given_(params), params_(params) {
        start_ = now();
        floor_ = integer_floor(params, query.scale);
        assert(!floor_ || floor_->row == kNoRow || floor_->row == 0);
    }

    PartsResult run() {
        result_.stats.unknown_terms = query_.unknown_terms;
        result_.stats.dropped_terms = num_dropped(query_, given_);
        order();
        if (given_.method == Method::asc && given_.max_clusters > 0) choose_clusters();
        search_all();
        if (is_chosen_ && !is_full() && result_.stats.budget_hit != 0 && order_.size() > 1) {
            // Fewer results than there may be in clusters that were left out.
            is_chosen_ = false;
            params_.max_clusters = 0;
            params_.may_lack = given_.may_lack;
            result_.hits.clear();
            for (const auto count :
                 {&SearchStats::clusters_visited, &SearchStats::clusters_pruned, &SearchStats::clusters_tied,
                  &SearchStats::clusters_stopped, &SearchStats::clusters_limited, &SearchStats::budget_hit}) {
                result_.stats.*count = 0;
            }
            search_all();
        }
        result_.stats.elapsed_ns = now() - start_;
        return std::move(result_);
    }

private:
    struct Ranked {
        std::uint64_t most = 0;  ///< no document of the part scores more
        std::uint32_t part = 0;
        std::uint32_t num_chosen = 0;     ///< of its clusters, how many are among the best of all parts, and
        std::uint64_t best_left_out = 0;  ///< the best bound of the others
    };

    void search_all() {
        bool limited = false;
        for (std::size_t i = 0; i < order_.size(); ++i) {
            const Ranked& next = order_[i];
            const std::uint32_t num_clusters = parts_[next.part].index->num_clusters();
            if (!may_add(next)) {
                result_.stats.clusters_stopped += num_clusters;
            } else if (limited || (i > 0 && is_spent())) {
                limited = true;
                result_.stats.budget_hit = 1;
                result_.stats.clusters_limited += num_clusters;
            } else if (is_chosen_ && next.num_chosen == 0) {
                result_.stats.clusters_limited += num_clusters;
            } else {
                if (is_chosen_) params_.max_clusters = next.num_chosen < num_clusters ? next.num_chosen : 0;
                search_part(next.part);
            }
        }
        if (!is_chosen_) return;
        // Parts of which no cluster was chosen may hold a result, too.
        for (const Ranked& part : order_) {
            if (part.num_chosen == 0 && may_add({part.best_left_out, part.part})) result_.stats.budget_hit = 1;
        }
    }

    /// The clusters with the best bounds of all parts together; where bounds are equal, those of the first part.
    void choose_clusters() {
        struct Bounded {
            std::uint64_t bound;
            std::uint32_t part;  ///< in order_
        };
        if (order_.size() < 2) return;  // the search of one part knows how
        std::vector<Bounded> all;
        for (std::uint32_t i = 0; i < order_.size(); ++i) {
            params_.mask = masks_.empty() ? nullptr : masks_[order_[i].part];
            for (const std::uint64_t bound :
                 max_bounds(*parts_[order_[i].part].index, query_, params_, gate_mass(params_))) {
                if (bound > 0) all.push_back({bound, i});
            }
        }
        is_chosen_ = true;
        params_.may_lack = true;
        const auto count = static_cast<std::ptrdiff_t>(std::min<std::size_t>(given_.max_clusters, all.size()));
        const auto comes_first = [](const Bounded& a, const Bounded& b) {
            return a.bound != b.bound ? a.bound > b.bound : a.part < b.part;
        };
        std::nth_element(all.begin(), all.begin() + count, all.end(), comes_first);
        for (auto one = all.begin(); one != all.end(); ++one) {
            Ranked& part = order_[one->part];
            if (one - all.begin() < count) {
                ++part.num_chosen;
            } else {
                part.best_left_out = std::max(part.best_left_out, one->bound);
            }
        }
    }

    std::uint64_t now() const { return given_.hooks.clock ? given_.hooks.clock() : steady_now(); }

    /// The parts that may have results, those with the highest scores first.
    void order() {
        for (std::uint32_t part = 0; part < parts_.size(); ++part) {
            const bool empty = parts_[part].index->num_docs() == 0 || (mask(part) && mask(part)->count() == 0);
            const std::uint64_t most = empty ? 0 : most_of(*parts_[part].index, query_);
            if (most > 0) {
                order_.push_back({most, part});
            } else {
                result_.stats.clusters_zero += parts_[part].index->num_clusters();
            }
        }
        std::stable_sort(order_.begin(), order_.end(), [](auto& a, auto& b) { return a.most > b.most; });
    }

    const Mask* mask(std::uint32_t part) const { return masks_.empty() ? nullptr : masks_[part].get(); }

    bool is_full() const { return result_.hits.size() >= k_; }

    /// Whether a document of a part may be among the results, as far as what the part scores at most tells.
    bool may_add(const Ranked& ranked) const {
        if (floor_ && (ranked.most < floor_->score || (ranked.most == floor_->score && floor_->row == 0))) return false;
        if (!is_full()) return true;
        const PartHit& last = result_.hits.back();
        const double factor = bound_factor(given_);
        if (factor < 1.0) return ranked.most > scaled_threshold(last.score, factor);
        return ranked.most > last.score ||
               (ranked.most == last.score && parts_[ranked.part].numbers.front() < last.number);
    }

    /// Takes what is left of the limits for the next part; true where nothing is.
    bool is_spent() {
        const auto rest = [](std::uint32_t limit, std::uint64_t used) {
            return static_cast<std::uint32_t>(limit - std::min<std::uint64_t>(limit, used));
        };
        if (given_.max_blocks > 0) params_.max_blocks = rest(given_.max_blocks, result_.stats.blocks_scored);
        const bool clusters = given_.max_clusters > 0 && given_.method != Method::asc;
        if (clusters) params_.max_clusters = rest(given_.max_clusters, result_.stats.clusters_visited);
        if (given_.budget_ms > 0) params_.budget_ms = given_.budget_ms - static_cast<double>(now() - start_) / 1e6;
        return (given_.max_blocks > 0 && params_.max_blocks == 0) || (clusters && params_.max_clusters == 0) ||
               (given_.budget_ms > 0 && params_.budget_ms <= 0);
    }

    /// The floor of a part: the k-th result so far, its number as the first row of the part that comes after it.
    std::optional<IntegerFloor> floor_of(const Part& part) const {
        if (!is_full()) return floor_;
        const PartHit& last = result_.hits.back();
        const auto row = std::lower_bound(part.numbers.begin(), part.numbers.end(), last.number);
        return IntegerFloor{last.score, static_cast<Row>(row - part.numbers.begin())};
    }

    void search_part(std::uint32_t number) {
        const Part& part = parts_[number];
        params_.mask = masks_.empty() ? nullptr : masks_[number];
        const SearchResult found = search(*part.index, query_, k_, params_, floor_of(part));
        add_stats(result_.stats, found.stats);
        merged_.clear();
        found_.clear();
        for (std::size_t i = 0; i < found.rows.size(); ++i) {
            found_.push_back({found.scores[i], part.numbers[found.rows[i]], number, found.rows[i]});
        }
        std::merge(result_.hits.begin(), result_.hits.end(), found_.begin(), found_.end(), std::back_inserter(merged_),
                   [](const PartHit& a, const PartHit& b) {
                       return a.score != b.score ? a.score > b.score : a.number < b.number;
                   });
        merged_.resize(std::min(merged_.size(), k_));
        std::swap(merged_, result_.hits);
    }

    std::span<const Part> parts_;
    std::span<const std::shared_ptr<const Mask>> masks_;
    const PreparedQuery& query_;
    std::size_t k_;
    const SearchParams& given_;
    SearchParams params_;  // for the part being searched
    std::uint64_t start_ = 0;
    std::optional<IntegerFloor> floor_;  // the caller's
    bool is_chosen_ = false;             // which clusters are visited
    std::vector<Ranked> order_;
    std::vector<PartHit> merged_, found_;
    PartsResult result_;
};

}  // namespace

PartsResult search_parts(std::span<const Part> parts, std::span<const std::shared_ptr<const Mask>> masks,
                         const PreparedQuery& query, std::size_t k, const SearchParams& params) {
    assert(masks.empty() || masks.size() == parts.size());
    return PartsSearch(parts, masks, query, k, params).run();
}

void search_parts_batch(const Lattice& lattice, std::span<const Part> parts, std::span<const PartMasks> masks,
                        const Batch& batch, unsigned threads,
                        const std::function<void(std::size_t, const PartsResult&, double)>& store,
                        const std::function<bool()>& poll) {
    assert(masks.size() == 1 || masks.size() == batch.size());
    run_batch(
        lattice, batch, threads,
        [&](std::size_t i, const PreparedQuery& query, std::size_t k, const SearchParams& params) {
            const PartMasks& own = masks[masks.size() == 1 ? 0 : i];
            store(i, search_parts(parts, own, query, k, params), query.scale);
        },
        poll);
}

}  // namespace segmax
