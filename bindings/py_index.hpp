// The index as Python holds it: the core's view, and the numpy arrays that keep the memory alive.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <vector>

#include "segmax/index/documents.hpp"
#include "segmax/index/index.hpp"

namespace segmax::bindings {

class PyIndex {
public:
    PyIndex(const IndexArrays& arrays, nanobind::object owner) : owner_(std::move(owner)), index_(arrays) {}

    const Index& get() const { return index_; }

    /// The position of a row, from a table that is made on first use. Throws std::out_of_range.
    Position position_of(std::int64_t row) const {
        if (row < 0 || row >= index_.num_docs()) throw std::out_of_range("a row is outside the collection");
        std::call_once(once_, [this] { positions_ = positions_of_rows(index_); });
        return positions_[static_cast<std::size_t>(row)];
    }

    std::vector<Position> positions_of(std::span<const std::int64_t> rows) const {
        std::vector<Position> positions;
        positions.reserve(rows.size());
        for (const std::int64_t row : rows) positions.push_back(position_of(row));
        return positions;
    }

private:
    nanobind::object owner_;
    Index index_;
    mutable std::once_flag once_;
    mutable std::vector<Position> positions_;
};

}  // namespace segmax::bindings
