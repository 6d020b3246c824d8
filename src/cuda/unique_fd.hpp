// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A file descriptor with one owner.
#pragma once

#include <utility>

#include <unistd.h>

namespace gdr::cuda {

class UniqueFd {
  public:
    UniqueFd() = default;
    explicit UniqueFd(int fd) : fd_(fd) {}
    UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept
    {
        UniqueFd(std::move(other)).swap(*this);
        return *this;
    }
    ~UniqueFd()
    {
        if (fd_ >= 0) {
            close(fd_);
        }
    }

    int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }
    void swap(UniqueFd& other) noexcept { std::swap(fd_, other.fd_); }
    explicit operator bool() const { return fd_ >= 0; }

  private:
    int fd_ = -1;
};

} // namespace gdr::cuda
