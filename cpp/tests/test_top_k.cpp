// The heap of results against a sorted list.
#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "check.hpp"
#include "make_index.hpp"
#include "search/top_k.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

/// Everything that was offered, in ranking order.
template <class Acc>
class Reference {
public:
    explicit Reference(std::size_t k) : k_(k) {}

    bool admits(Acc score, Row row) const {
        return score > 0 && (best_.size() < k_ || Key{~score, row} < *best_.rbegin());
    }
    void push(Acc score, Row row) {
        best_.insert({static_cast<Acc>(~score), row});
        if (best_.size() > k_) best_.erase(std::prev(best_.end()));
    }
    std::size_t size() const { return best_.size(); }
    Acc threshold() const { return best_.size() == k_ ? ~best_.rbegin()->first : Acc{0}; }
    Row threshold_row() const { return best_.size() == k_ ? best_.rbegin()->second : kNoRow; }
    std::vector<std::pair<std::uint64_t, Row>> ranking() const {
        std::vector<std::pair<std::uint64_t, Row>> list;
        for (const auto& [flipped, row] : best_) list.emplace_back(static_cast<Acc>(~flipped), row);
        return list;
    }

private:
    using Key = std::pair<Acc, Row>;
    std::size_t k_;
    std::set<Key> best_;
};

template <class Acc>
std::vector<std::pair<std::uint64_t, Row>> drained(TopK<Acc>& top) {
    std::vector<std::pair<std::uint64_t, Row>> list;
    const std::size_t count = top.drain([&](std::size_t i, Acc score, Row row) {
        CHECK_EQ(i, list.size());
        list.emplace_back(score, row);
    });
    CHECK_EQ(count, list.size());
    return list;
}

/// Scores in [lowest, lowest + spread] for rows in random order, compared after every step.
template <class Acc>
void compare(TopK<Acc>& top, std::size_t k, Acc lowest, Acc spread, Random& random) {
    std::vector<Row> rows(1500);
    std::iota(rows.begin(), rows.end(), draw(random, 0, 1) == 0 ? Row{0} : static_cast<Row>(kNoRow - rows.size()));
    std::shuffle(rows.begin(), rows.end(), random);
    Reference<Acc> reference(k);
    top.reset(k);
    for (const Row row : rows) {
        const Acc score = lowest + static_cast<Acc>(draw(random, 0, spread));
        CHECK_EQ(top.admits(score, row), reference.admits(score, row));
        if (reference.admits(score, row)) {
            top.push(score, row);
            reference.push(score, row);
        }
        CHECK_EQ(top.size(), reference.size());
        CHECK_EQ(top.full(), reference.size() == k);
        CHECK_EQ(top.threshold(), reference.threshold());
        CHECK_EQ(top.threshold_row(), reference.threshold_row());
    }
    CHECK(drained(top) == reference.ranking());
}

/// The mode whose θ lags behind: never above the true one, results the same in the end.
template <class Acc>
void compare_inexact(TopK<Acc>& top, std::size_t k, Acc lowest, Acc spread, Random& random) {
    std::vector<Row> rows(1500);
    std::iota(rows.begin(), rows.end(), Row{0});
    std::shuffle(rows.begin(), rows.end(), random);
    Reference<Acc> reference(k);
    top.reset(k, false);
    for (const Row row : rows) {
        const Acc score = lowest + static_cast<Acc>(draw(random, 0, spread));
        if (reference.admits(score, row)) {
            CHECK(top.admits(score, row));
            reference.push(score, row);
        }
        if (top.admits(score, row)) top.push(score, row);
        CHECK_EQ(top.size(), reference.size());
        CHECK_EQ(top.full(), reference.size() == k);
        CHECK(top.threshold() <= reference.threshold());
        CHECK_EQ(top.threshold() > 0, reference.threshold() > 0);
        if (top.threshold() == reference.threshold()) CHECK(top.threshold_row() >= reference.threshold_row());
    }
    CHECK(drained(top) == reference.ranking());
}

template <class Acc>
void compare_all() {
    Random random(21);
    TopK<Acc> top;
    constexpr Acc max = std::numeric_limits<Acc>::max();
    for (const std::size_t k : {1, 2, 3, 4, 5, 8, 10, 31, 100, 1000, 1499, 1500, 5000}) {
        for (const Acc spread : {Acc{0}, Acc{1}, Acc{12}, max / 2}) {
            for (const Acc lowest : {Acc{0}, Acc{1}, static_cast<Acc>(max - spread)}) {
                NOTE("k " << k << ", scores from " << lowest << ", spread " << spread);
                compare<Acc>(top, k, lowest, spread, random);
                compare_inexact<Acc>(top, k, lowest, spread, random);
            }
        }
    }
}

}  // namespace

// With 32-bit scores the heap holds the k best by score, then row, and knows the k-th after every push.
TEST(top_k_32_bits) {
    compare_all<std::uint32_t>();
}

// With 64-bit scores, up to the largest, it does the same.
TEST(top_k_64_bits) {
    compare_all<std::uint64_t>();
}

// A score of 0 never enters, however empty the heap is.
TEST(top_k_never_admits_zero) {
    TopK<std::uint32_t> top;
    top.reset(3);
    CHECK(!top.admits(0, 0));
    CHECK(top.admits(1, kNoRow - 1));
    top.push(1, 7);
    CHECK(!top.admits(0, 0));
    CHECK_EQ(top.size(), 1U);
}

// From a floor on, only what comes before it enters, though never more than k, and θ is the floor's until there are k;
// whether θ is exact or lags behind.
TEST(top_k_floor) {
    Random random(23);
    TopK<std::uint32_t> top;
    for (const bool exact : {true, false}) {
        for (const std::size_t k : {1, 3, 50, 2000}) {
            for (const std::uint32_t floor : {1U, 5U, 12U, 13U}) {
                for (const Row floor_row : {Row{0}, Row{700}, kNoRow}) {
                    NOTE("exact " << exact << ", k " << k << ", floor " << floor << ", row " << floor_row);
                    std::vector<Row> rows(1500);
                    std::iota(rows.begin(), rows.end(), Row{0});
                    std::shuffle(rows.begin(), rows.end(), random);
                    Reference<std::uint32_t> reference(k);
                    top.reset(k, exact);
                    top.set_floor(floor, floor_row);
                    CHECK(top.full() && top.size() == 0);
                    for (const Row row : rows) {
                        const auto score = static_cast<std::uint32_t>(draw(random, 0, 12));
                        const bool before = score > floor || (score == floor && row < floor_row);
                        const bool enters = before && reference.admits(score, row);
                        if (exact) CHECK_EQ(top.admits(score, row), enters);
                        if (enters) CHECK(top.admits(score, row));
                        if (top.admits(score, row)) top.push(score, row);
                        if (enters) reference.push(score, row);
                        if (exact) CHECK_EQ(top.threshold(), std::max(floor, reference.threshold()));
                        CHECK(top.threshold() >= floor);
                        CHECK_EQ(top.size(), reference.size());
                    }
                    CHECK(drained(top) == reference.ranking());
                }
            }
        }
    }
    top.reset(3);
    CHECK(!top.full());  // a floor is gone with the search that had it
}
