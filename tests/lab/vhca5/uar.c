// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Doorbell pages (UARs), which libmlx5 asks for as objects of their own and
 * maps.  Each is a page of memory that nobody watches.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/uverbs_std_types.h>
#include <rdma/uverbs_types.h>

#define UVERBS_MODULE_NAME vhca5_uar
#include <rdma/uverbs_named_ioctl.h>

#include "vhca5.h"

struct vhca5_uar {
	struct rdma_user_mmap_entry	entry;
	struct page			*page;
};

static struct vhca5_uar *to_uar(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct vhca5_uar, entry);
}

static struct vhca5_uar *vhca5_uar_make(struct ib_ucontext *ibuctx)
{
	struct vhca5_uar *uar;
	int err;

	uar = kzalloc(sizeof(*uar), GFP_KERNEL);
	if (!uar)
		return ERR_PTR(-ENOMEM);
	uar->page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!uar->page) {
		kfree(uar);
		return ERR_PTR(-ENOMEM);
	}
	err = rdma_user_mmap_entry_insert(ibuctx, &uar->entry, PAGE_SIZE);
	if (err) {
		__free_page(uar->page);
		kfree(uar);
		return ERR_PTR(err);
	}
	return uar;
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_UAR_OBJ_ALLOC)(
	struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobj =
		uverbs_attr_get_uobject(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE);
	struct vhca5_uar *uar;
	u64 offset;
	u32 length = PAGE_SIZE, page_id;
	int err;

	uar = vhca5_uar_make(uobj->context);
	if (IS_ERR(uar))
		return PTR_ERR(uar);
	uobj->object = uar;
	/* From here on an error makes ib_uverbs call the clean-up below. */
	uverbs_finalize_uobj_create(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE);

	offset = rdma_user_mmap_get_offset(&uar->entry);
	err = uverbs_copy_to(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET,
			     &offset, sizeof(offset));
	if (err)
		return err;
	err = uverbs_copy_to(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
			     &length, sizeof(length));
	if (err)
		return err;
	page_id = uar->entry.start_pgoff;
	return uverbs_copy_to(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
			      &page_id, sizeof(page_id));
}

static int vhca5_uar_cleanup(struct ib_uobject *uobj,
			     enum rdma_remove_reason why,
			     struct uverbs_attr_bundle *attrs)
{
	struct vhca5_uar *uar = uobj->object;

	rdma_user_mmap_entry_remove(&uar->entry);
	return 0;
}

static void vhca5_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct vhca5_uar *uar = to_uar(entry);

	/* A mapping of an unplugged device may still hold the page. */
	put_page(uar->page);
	kfree(uar);
}

static int vhca5_mmap(struct ib_ucontext *ibuctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	int err;

	/* Also checks that the mapping is shared and of the page's size. */
	entry = rdma_user_mmap_entry_get(ibuctx, vma);
	if (!entry)
		return -EINVAL;
	err = vm_insert_page(vma, vma->vm_start, to_uar(entry)->page);
	rdma_user_mmap_entry_put(entry);
	return err;
}

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_UAR_OBJ_ALLOC,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, MLX5_IB_OBJECT_UAR,
			UVERBS_ACCESS_NEW, UA_MANDATORY),
	UVERBS_ATTR_CONST_IN(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE,
			     enum mlx5_ib_uapi_uar_alloc_type, UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET,
			    UVERBS_ATTR_TYPE(u64), UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
			    UVERBS_ATTR_TYPE(u32), UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
			    UVERBS_ATTR_TYPE(u32), UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD_DESTROY(
	MLX5_IB_METHOD_UAR_OBJ_DESTROY,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, MLX5_IB_OBJECT_UAR,
			UVERBS_ACCESS_DESTROY, UA_MANDATORY));

DECLARE_UVERBS_NAMED_OBJECT(MLX5_IB_OBJECT_UAR,
			    UVERBS_TYPE_ALLOC_IDR(vhca5_uar_cleanup),
			    &UVERBS_METHOD(MLX5_IB_METHOD_UAR_OBJ_ALLOC),
			    &UVERBS_METHOD(MLX5_IB_METHOD_UAR_OBJ_DESTROY));

const struct uapi_definition vhca5_uar_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(MLX5_IB_OBJECT_UAR),
	{},
};

const struct ib_device_ops vhca5_uar_ops = {
	.mmap = vhca5_mmap,
	.mmap_free = vhca5_mmap_free,
};
