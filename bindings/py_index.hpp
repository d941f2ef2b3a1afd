// The index as Python holds it: the core's view, and the numpy arrays that keep the memory alive.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <vector>

#include "segmax/index/documents.hpp"
#include "segmax/index/index.hpp"

namespace segmax::bindings {

class PyIndex {
public:
    PyIndex(const IndexArrays& arrays, nanobind::object owner) : owner_(std::move(owner)), index_(arrays) {}

    const Index& get() const { return index_; }

    /// Positions by row; made on first use.
    const std::vector<Position>& positions() const {
        std::call_once(once_, [this] { positions_ = positions_of_rows(index_); });
        return positions_;
    }

private:
    nanobind::object owner_;
    Index index_;
    mutable std::once_flag once_;
    mutable std::vector<Position> positions_;
};

}  // namespace segmax::bindings
