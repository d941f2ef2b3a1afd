// Arrays across the seam: views of numpy memory in, owned buffers out.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace segmax::bindings {

namespace nb = nanobind;

template <class T>
using Array = nb::ndarray<const T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using MutableArray = nb::ndarray<T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using AnyArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> view(const Array<T>& array) {
    return {array.data(), array.size()};
}

/// A numpy array that owns `values`, of the given shape.
template <class T>
nb::object owned(std::vector<T>&& values, std::initializer_list<std::size_t> shape) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape, owner));
}

template <class T>
nb::object owned(std::vector<T>&& values) {
    const std::size_t size = values.size();
    return owned(std::move(values), {size});
}

}  // namespace segmax::bindings
