// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An open device and its objects, by the handles that the kernel's interface has for them: the
// indices of softhca's, but for address handles. All of it under the adapter's lock.
#pragma once

#include "emu/softhca/channel.hpp"
#include "emu/softhca/key_list.hpp"
#include "emu/softhca/objects.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softmlx5/devx_object.hpp"
#include "emu/softmlx5/qp.hpp"

#include <cstdint>
#include <map>
#include <memory>

namespace softmlx5 {

class Adapter;

template <class Object>
class Handles {
  public:
    Object* find(std::uint32_t handle)
    {
        const auto found = objects_.find(handle);
        return found == objects_.end() ? nullptr : found->second.get();
    }
    void add(std::uint32_t handle, std::unique_ptr<Object> object)
    {
        objects_[handle] = std::move(object);
    }
    void remove(std::uint32_t handle) { objects_.erase(handle); }
    template <class Visit>
    void for_each(Visit visit)
    {
        for (const auto& [handle, object] : objects_) {
            visit(*object);
        }
    }

  private:
    std::map<std::uint32_t, std::unique_ptr<Object>> objects_;
};

struct Mr {
    explicit Mr(ibv_mr& region) : hca(region) {}
    ~Mr();
    Mr(const Mr&) = delete;
    Mr& operator=(const Mr&) = delete;

    // 0, then there is no region any more; EBUSY: windows are bound to it.
    int deregister();

    ibv_mr& hca;

  private:
    bool registered_ = true;
};

// Another object of softhca's, which ends with this.
template <class Object, int (*end)(Object*)>
class Owned {
  public:
    explicit Owned(Object& object) : object_(object) {}
    ~Owned() { end(&object_); }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;

  private:
    Object& object_;
};
using Mw = Owned<ibv_mw, softhca::dealloc_mw>;
using Ah = Owned<ibv_ah, softhca::destroy_ah>;

struct Context {
    Context(Adapter& adapter, unsigned device); // throws std::system_error, std::bad_alloc
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    // Passes on softhca's events, to the objects that they name.
    void take_events();

    bool is_ethernet(unsigned port) const;
    // By its number; null: there is none.
    Srq* find_srq(std::uint32_t number) { return srqs.find(number - 1); }

    Adapter& adapter;
    softhca::Context& hca;
    std::shared_ptr<AsyncChannel> async;
    std::uint32_t doorbell_pages = 0; // handed out
    std::uint32_t next_ah = 0;
    bool has_devx = false;
    std::uint32_t latest_umem = 0;
    std::map<std::uint32_t, std::shared_ptr<const Umem>> umems;
    Handles<DevxObject> devx_objects;
    // The last go first.
    Handles<Pd> pds;
    Handles<Ah> ahs;
    Handles<Mr> mrs;
    Handles<Mw> mws;
    Handles<softhca::KeyList> key_lists;
    Handles<Cq> cqs;
    Handles<Srq> srqs;
    Handles<Qp> qps;

  private:
    // Whether an event is that of an object of DEVX, which tells those that want it.
    bool tell_devx(DevxObject::Kind kind, const softhca::AsyncNotice& notice);
};

} // namespace softmlx5
