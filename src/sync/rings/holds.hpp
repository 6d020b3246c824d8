// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What one thread has in use of a table. However often it uses an item at a time, the table, which
// other threads write, counts that once.
#pragma once

#include "sync/rings/use_table.hpp"

#include <array>

namespace gdr::sync {

template <typename Item>
class Holds {
  public:
    explicit Holds(UseTable<Item>& table) : table_(table) {}

    // As UseTable has them.
    Item* use(uint32_t number)
    {
        Hold& hold = hold_of(number);
        if (hold.uses != 0 && hold.number != number) {
            return table_.use(number); // its place is taken
        }
        if (hold.uses == 0) {
            hold.item = table_.use(number);
            hold.number = number;
            if (hold.item == nullptr) {
                return nullptr;
            }
        }
        ++hold.uses;
        return hold.item;
    }
    void give_back(uint32_t number)
    {
        Hold& hold = hold_of(number);
        if (hold.uses == 0 || hold.number != number || --hold.uses == 0) {
            table_.give_back(number);
        }
    }

  private:
    struct Hold {
        uint32_t number = 0;
        uint32_t uses = 0;
        Item* item = nullptr;
    };

    Hold& hold_of(uint32_t number) { return holds_[number % holds_.size()]; }

    UseTable<Item>& table_;
    std::array<Hold, 16> holds_{};
};

} // namespace gdr::sync
