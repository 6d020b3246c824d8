// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// User objects' references, and their destructors, which run one after the other in the driver's
// thread for host functions.
#include "emu/softcuda/user_object.hpp"
#include "emu/softcuda/stream.hpp"

#include <climits>
#include <mutex>
#include <set>

struct CUuserObject_st {
    void* pointer;
    CUhostFn destroy;
    uint64_t references;
};

namespace softcuda {

namespace {

struct UserObjects {
    std::mutex mutex;
    std::set<CUuserObject> all;
};

UserObjects& user_objects()
{
    static auto& instance = *new UserObjects;
    return instance;
}

void require_count(unsigned count)
{
    require(count > 0 && count <= INT_MAX);
}

void add_references(CUuserObject object, unsigned count)
{
    std::lock_guard guard(user_objects().mutex);
    require(user_objects().all.contains(object));
    object->references += count;
}

void drop_references(CUuserObject object, uint64_t count)
{
    static CUstream destructors = create_inner_stream().release();
    {
        std::lock_guard guard(user_objects().mutex);
        require(user_objects().all.contains(object) && object->references >= count);
        object->references -= count;
        if (object->references > 0) {
            return;
        }
        user_objects().all.erase(object);
    }
    std::vector<std::pair<CUstream, Operation>> last;
    last.emplace_back(destructors, Operation{.run =
                                                 [object] {
                                                     object->destroy(object->pointer);
                                                     delete object;
                                                 },
                                             .host_function = true});
    enqueue_inner(std::move(last));
}

} // namespace

UserObjectReferences::~UserObjectReferences()
{
    for (auto [object, count] : held_) {
        try {
            drop_references(object, count);
        } catch (const Error&) {
            // The program has released these, too, though they were not its own.
        }
    }
}

void UserObjectReferences::retain(CUuserObject object, unsigned count, bool move)
{
    require_count(count);
    add_references(object, move ? 0 : count);
    held_[object] += count;
}

void UserObjectReferences::retain(const UserObjectReferences& other)
{
    for (auto [object, count] : other.held_) {
        retain(object, count, false);
    }
}

void UserObjectReferences::release(CUuserObject object, unsigned count)
{
    require_count(count);
    auto held = held_.find(object);
    require(held != held_.end() && held->second >= count);
    held->second -= count;
    if (held->second == 0) {
        held_.erase(held);
    }
    drop_references(object, count);
}

} // namespace softcuda

using namespace softcuda;

CUresult cuUserObjectCreate(CUuserObject* object, void* pointer, CUhostFn destroy,
                            unsigned references, unsigned flags)
{
    return api(__func__, Needs::init, [&] {
        require(object != nullptr && destroy != nullptr);
        require_count(references);
        require(flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
        auto* created = new CUuserObject_st{pointer, destroy, references};
        std::lock_guard guard(user_objects().mutex);
        user_objects().all.insert(created);
        *object = created;
    });
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned count)
{
    return api(__func__, Needs::init, [&] {
        require_count(count);
        add_references(object, count);
    });
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned count)
{
    return api(__func__, Needs::init, [&] {
        require_count(count);
        drop_references(object, count);
    });
}
