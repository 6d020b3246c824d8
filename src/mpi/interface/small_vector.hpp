// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Like std::vector, but holds one element in the object itself: most vectors have no more, and so
// take no memory from the heap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace gdr::mpi {

template <typename T>
class SmallVector {
  public:
    SmallVector() = default;
    explicit SmallVector(T element) : one_(std::move(element)) {}

    size_t size() const { return many_.empty() ? size_t{one_.has_value()} : many_.size(); }
    bool empty() const { return size() == 0; }

    T* begin() { return many_.empty() ? one_.operator->() : many_.data(); }
    T* end() { return begin() + size(); }
    const T* begin() const { return many_.empty() ? one_.operator->() : many_.data(); }
    const T* end() const { return begin() + size(); }

    T& operator[](size_t i) { return begin()[i]; }
    const T& operator[](size_t i) const { return begin()[i]; }
    const T& front() const { return *begin(); }
    T& back() { return end()[-1]; }

    void push_back(T&& element)
    {
        if (empty()) {
            one_.emplace(std::move(element));
            return;
        }
        if (many_.empty()) {
            many_.push_back(std::move(*one_));
        }
        many_.push_back(std::move(element));
    }

    bool operator==(const SmallVector& other) const { return std::ranges::equal(*this, other); }

  private:
    std::optional<T> one_; // the only element; with several it is moved from
    std::vector<T> many_;
};

} // namespace gdr::mpi
