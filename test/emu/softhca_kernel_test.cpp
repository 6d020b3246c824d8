// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
