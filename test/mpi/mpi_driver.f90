! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! What the Fortran programs need of the CUDA driver; they include this before their declarations.
  interface
    integer(c_int) function init(flags) bind(C, name="cuInit")
      import; integer(c_int), value :: flags
    end function
    integer(c_int) function retain(context, device) bind(C, name="cuDevicePrimaryCtxRetain")
      import; type(c_ptr) :: context; integer(c_int), value :: device
    end function
    integer(c_int) function set_current(context) bind(C, name="cuCtxSetCurrent")
      import; type(c_ptr), value :: context
    end function
    integer(c_int) function allocate_on_gpu(address, length) bind(C, name="cuMemAlloc_v2")
      import; type(c_ptr) :: address; integer(c_size_t), value :: length
    end function
    integer(c_int) function copy(to, from, length) bind(C, name="cuMemcpy")
      import; type(c_ptr), value :: to, from; integer(c_size_t), value :: length
    end function
  end interface
