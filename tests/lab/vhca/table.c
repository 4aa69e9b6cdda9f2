// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Numbered objects: QPs, CQs, SRQs and memory keys.
 *
 * A number is reserved before the object is complete, so that it can be told
 * to user space, and published as the last step, so that nobody finds half an
 * object.  Numbers are handed out cyclically: one that was just freed does not
 * come back at once, as with real hardware, which makes stale numbers visible.
 */
#include "vhca.h"

int vhca_quota_charge(struct vhca_quota *quota)
{
	return atomic_add_unless(&quota->used, 1, quota->max) ? 0 : -ENOMEM;
}

void vhca_quota_refund(struct vhca_quota *quota)
{
	atomic_dec(&quota->used);
}

void vhca_table_init(struct vhca_table *table, u32 max)
{
	xa_init_flags(&table->xa, XA_FLAGS_ALLOC);
	table->next = 0;
	table->quota.max = max;
}

/* A reserved number reads as absent until it is published. */
int vhca_table_reserve(struct vhca_table *table, u32 min, u32 max, u32 *number)
{
	int err = vhca_quota_charge(&table->quota);

	if (err)
		return err;
	err = xa_alloc_cyclic(&table->xa, number, NULL, XA_LIMIT(min, max),
			      &table->next, GFP_KERNEL);
	/* 1 says that the numbers wrapped around, which is fine. */
	if (err >= 0)
		return 0;
	vhca_quota_refund(&table->quota);
	return err;
}

/* Cannot fail: the reservation allocated the slot. */
void vhca_table_publish(struct vhca_table *table, u32 number,
			struct vhca_res *res)
{
	refcount_set(&res->refs, 1);
	init_completion(&res->idle);
	WARN_ON(xa_is_err(xa_store(&table->xa, number, res, GFP_KERNEL)));
}

/* Gives a number back that was reserved but never published. */
void vhca_table_release(struct vhca_table *table, u32 number)
{
	xa_erase(&table->xa, number);
	vhca_quota_refund(&table->quota);
}

/*
 * After this nobody holds the object: ib_core frees its memory as soon as the
 * destroy call returns, so the engine must be through with it.
 */
void vhca_table_remove(struct vhca_table *table, u32 number,
		       struct vhca_res *res)
{
	xa_erase(&table->xa, number);
	vhca_res_put(res);
	wait_for_completion(&res->idle);
	vhca_quota_refund(&table->quota);
}

/* The xarray's lock keeps the object alive between the load and the count. */
struct vhca_res *vhca_table_get(struct vhca_table *table, u32 number)
{
	struct vhca_res *res;

	xa_lock(&table->xa);
	res = xa_load(&table->xa, number);
	if (res)
		refcount_inc(&res->refs);
	xa_unlock(&table->xa);
	return res;
}

void vhca_res_get(struct vhca_res *res)
{
	refcount_inc(&res->refs);
}

void vhca_res_put(struct vhca_res *res)
{
	if (refcount_dec_and_test(&res->refs))
		complete(&res->idle);
}
