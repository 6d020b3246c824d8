// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Means are an attribute of the application's communicator. MPI_COMM_SELF also has one:
// MPI_Finalize deletes it first, which ends NCCL's communicators while MPI and CUDA still work.
#include "mpi/collectives/means.hpp"

#include "kernels/reduction.hpp"
#include "log/log.hpp"
#include "mpi/interface/transport.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <vector>

namespace gdr::mpi {

namespace {

int do_not_copy(Word, int, void*, void*, void*, int* copied)
{
    *copied = 0;
    return 0;
}

// The attribute of MPI_COMM_WORLD is deleted within MPI_Finalize, which frees everything.
int forget(Word comm, int, void* means, void* library)
{
    std::unique_ptr<Means> ended(static_cast<Means*>(means));
    const auto& of = *static_cast<const Library*>(library);
    if (of.abi->handle(comm) != of.comm_world) {
        ended->end();
    }
    return 0;
}

int make_key(const Library& library, int (*end)(Word, int, void*, void*))
{
    int made = 0;
    check_mpi(library.Comm_create_keyval(do_not_copy, end, &made, const_cast<Library*>(&library)));
    return made;
}

int key(const Library& library)
{
    static const int keyval = make_key(library, forget);
    return keyval;
}

// The means that have an NCCL communicator.
class WithNccl {
  public:
    static WithNccl& all()
    {
        static auto& instance = *new WithNccl; // static destructors may still call MPI
        return instance;
    }

    void add(const Library& library, Means* means)
    {
        static const int at_end = make_key(library, [](Word, int, void*, void*) {
            all().end();
            return 0;
        });
        const std::lock_guard guard(mutex_);
        if (!told_) {
            check_mpi(library.Comm_set_attr(library.comm_self, at_end, this));
        }
        told_ = true;
        means_.push_back(means);
    }

    void remove(Means* means)
    {
        const std::lock_guard guard(mutex_);
        std::erase(means_, means);
    }

  private:
    void end()
    {
        std::vector<Means*> means;
        {
            const std::lock_guard guard(mutex_);
            means.swap(means_);
        }
        for (Means* one : means) {
            one->begin_nccl_end();
        }
        for (Means* one : means) {
            one->finish_nccl_end();
        }
    }

    std::mutex mutex_;
    bool told_ = false;
    std::vector<Means*> means_;
};

} // namespace

Means::Means(const Library& library, Word comm, bool with_nccl) : team_(library, comm)
{
    const bool driver = cuda::open_driver() != nullptr;
    const bool ring = driver && kernels::built() && hands_to_ucx(library);
    const nccl::Library* nccl = driver && with_nccl ? nccl::library() : nullptr;
    const int kind = nccl != nullptr ? nccl->version * 2 + (nccl->blocks ? 1 : 0) : 0;
    // Both kinds are kept if all have one kind.
    std::array words{ring ? 1 : 0, nccl != nullptr ? 1 : 0, kind, ~kind};
    team_.intersect(words);
    ring_ = words[0] != 0;
    const bool all_have_it = words[1] != 0;
    if (all_have_it && words[2] == kind && words[3] == ~kind) {
        nccl_ = nccl;
    } else if (all_have_it) {
        static std::atomic_flag told = ATOMIC_FLAG_INIT;
        log::message(told.test_and_set() ? log::Level::diag : log::Level::warn, __FILE__, __LINE__,
                     "collective calls of MPI of %d ranks are not made by NCCL: its version or "
                     "NCCL_COMM_BLOCKING differs among them. Have the same on all hosts",
                     team_.size());
    } else if (nccl != nullptr) {
        gdr_log(diag,
                "collective calls of MPI of %d ranks are not made by NCCL: not all of them have it",
                team_.size());
    }
}

Means& Means::of(const Library& library, Word comm, bool with_nccl)
{
    void* known = nullptr;
    int found = 0;
    check_mpi(library.Comm_get_attr(comm, key(library), &known, &found));
    if (found != 0) {
        return *static_cast<Means*>(known);
    }
    auto means = std::make_unique<Means>(library, comm, with_nccl);
    check_mpi(library.Comm_set_attr(comm, key(library), means.get()));
    return *means.release();
}

bool Means::nccl_serves(const ThreadStream& stream)
{
    return nccl_ != nullptr && (communicator_ == nullptr || communicator_->serves(stream));
}

NcclCommunicator* Means::communicator(const cuda::Driver& driver, const ThreadStream& stream)
{
    if (communicator_ != nullptr || nccl_ == nullptr) {
        return communicator_.get();
    }
    communicator_ = NcclCommunicator::make(*nccl_, team_, driver, stream);
    if (communicator_ == nullptr) {
        nccl_ = nullptr;
        return nullptr;
    }
    device_ = stream.device();
    WithNccl::all().add(team_.library(), this);
    return communicator_.get();
}

// Works on the communicator with its GPU's context current. Does nothing in a forked child, which
// has no driver. Returns false if that context is gone.
template <class Work>
bool Means::in_context(Work work)
{
    const cuda::Driver* driver = cuda::open_driver();
    if (communicator_ == nullptr || driver == nullptr) {
        return true;
    }
    try {
        const ThreadStream stream(*driver, device_);
        work();
        return true;
    } catch (const cuda::Error& error) {
        gdr_log(diag, "NCCL's communicator of %d ranks is left as it is: %s", team_.size(),
                error.what());
        return false;
    }
}

void Means::begin_nccl_end()
{
    if (!in_context([&] { communicator_->begin_end(); })) {
        (void)communicator_.release(); // CUDA has ended it
    }
}

void Means::finish_nccl_end()
{
    nccl_ = nullptr;
    in_context([&] { communicator_->finish_end(); });
    communicator_.reset();
}

void Means::end()
{
    WithNccl::all().remove(this);
    begin_nccl_end();
    finish_nccl_end();
    team_.end();
}

} // namespace gdr::mpi
