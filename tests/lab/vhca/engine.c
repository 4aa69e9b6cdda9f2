// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The engine: one kernel thread that stands for the hardware of all devices.
 *
 * A doorbell is a hint, not a message: two threads of a process may ring for
 * two QPs before the engine looks, and the page remembers only the second.  So
 * a doorbell that was found makes the engine look at every send queue, or at
 * every CQ's arm request, of that context.  Whether there is work is told by
 * the owner bits and doorbell records in memory.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/mlx4/doorbell.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/wait.h>

#include "vhca.h"

/* Polling backs off between these, so that an idle device costs little. */
#define VHCA_POLL_MIN_US	5
#define VHCA_POLL_MAX_US	1000
/* Rounds without progress before the engine sleeps for the first time. */
#define VHCA_SPIN_ROUNDS	50

static struct {
	struct task_struct	*task;
	wait_queue_head_t	wait;
	struct mutex		uar_lock;
	struct list_head	uctxs;
	spinlock_t		run_lock;
	struct list_head	run;
} engine = {
	.wait = __WAIT_QUEUE_HEAD_INITIALIZER(engine.wait),
	.uar_lock = __MUTEX_INITIALIZER(engine.uar_lock),
	.uctxs = LIST_HEAD_INIT(engine.uctxs),
	.run_lock = __SPIN_LOCK_UNLOCKED(engine.run_lock),
	.run = LIST_HEAD_INIT(engine.run),
};

void vhca_engine_add_uctx(struct vhca_uctx *uctx)
{
	mutex_lock(&engine.uar_lock);
	list_add(&uctx->engine_link, &engine.uctxs);
	mutex_unlock(&engine.uar_lock);
	wake_up(&engine.wait);
}

void vhca_engine_del_uctx(struct vhca_uctx *uctx)
{
	mutex_lock(&engine.uar_lock);
	list_del(&uctx->engine_link);
	mutex_unlock(&engine.uar_lock);
}

/* The run list holds a reference to each QP on it. */
void vhca_engine_kick(struct vhca_qp *qp)
{
	spin_lock(&engine.run_lock);
	if (!qp->dying && list_empty(&qp->run_link)) {
		vhca_res_get(&qp->res);
		list_add_tail(&qp->run_link, &engine.run);
	}
	spin_unlock(&engine.run_lock);
	wake_up(&engine.wait);
}

/* A step that is under way goes on; the caller waits for its reference. */
void vhca_engine_forget(struct vhca_qp *qp)
{
	bool queued;

	spin_lock(&engine.run_lock);
	qp->dying = true;
	queued = !list_empty(&qp->run_link);
	list_del_init(&qp->run_link);
	spin_unlock(&engine.run_lock);
	if (queued)
		vhca_res_put(&qp->res);
}

/* Reads and clears a doorbell; says whether it had been rung. */
static bool vhca_take_doorbell(u64 *db)
{
	return READ_ONCE(*db) && xchg(db, 0);
}

static bool vhca_poll_uar(struct vhca_uctx *uctx)
{
	void *uar = page_address(uctx->uar);
	bool found = false;
	struct vhca_qp *qp;
	struct vhca_cq *cq;

	/* The send doorbell is 32 bits in the upper half of an aligned 64. */
	BUILD_BUG_ON(MLX4_SEND_DOORBELL != 0x14);
	if (vhca_take_doorbell(uar + MLX4_SEND_DOORBELL - 4)) {
		found = true;
		mutex_lock(&uctx->lock);
		list_for_each_entry(qp, &uctx->qps, uctx_link)
			vhca_engine_kick(qp);
		mutex_unlock(&uctx->lock);
	}
	if (vhca_take_doorbell(uar + MLX4_CQ_DOORBELL)) {
		found = true;
		mutex_lock(&uctx->lock);
		list_for_each_entry(cq, &uctx->cqs, uctx_link)
			vhca_cq_serve_arm(cq);
		mutex_unlock(&uctx->lock);
	}
	return found;
}

static bool vhca_poll_uars(void)
{
	struct vhca_uctx *uctx;
	bool found = false;

	mutex_lock(&engine.uar_lock);
	list_for_each_entry(uctx, &engine.uctxs, engine_link)
		found |= vhca_poll_uar(uctx);
	mutex_unlock(&engine.uar_lock);
	return found;
}

static struct vhca_qp *vhca_next_runnable(struct list_head *round)
{
	struct vhca_qp *qp;

	spin_lock(&engine.run_lock);
	qp = list_first_entry_or_null(round, struct vhca_qp, run_link);
	if (qp)
		list_del_init(&qp->run_link);
	spin_unlock(&engine.run_lock);
	return qp;
}

/*
 * One step for each QP that was on the list when the round began; those that
 * are not through go back to the list for the next round.
 */
static bool vhca_run_qps(void)
{
	enum vhca_step step;
	struct vhca_qp *qp;
	bool busy = false;
	LIST_HEAD(round);

	spin_lock(&engine.run_lock);
	list_splice_init(&engine.run, &round);
	spin_unlock(&engine.run_lock);

	while ((qp = vhca_next_runnable(&round))) {
		mutex_lock(&qp->lock);
		step = vhca_requester_step(qp);
		mutex_unlock(&qp->lock);
		if (step != VHCA_IDLE)
			vhca_engine_kick(qp);
		busy |= step == VHCA_BUSY;
		vhca_res_put(&qp->res);
		cond_resched();
	}
	return busy;
}

static bool vhca_engine_has_work(void)
{
	return kthread_should_stop() || !list_empty(&engine.uctxs) ||
	       !list_empty(&engine.run);
}

static int vhca_engine_main(void *unused)
{
	unsigned int idle = 0, us = VHCA_POLL_MIN_US;

	/* Real hardware does not wait for those who spin on its CQs. */
	set_user_nice(current, MIN_NICE);
	while (!kthread_should_stop()) {
		wait_event_interruptible(engine.wait, vhca_engine_has_work());
		if (vhca_poll_uars() | vhca_run_qps()) {
			idle = 0;
			us = VHCA_POLL_MIN_US;
			cond_resched();
		} else if (++idle < VHCA_SPIN_ROUNDS) {
			cond_resched();
		} else {
			usleep_range(us, 2 * us);
			us = min(us + us / 8 + 1, VHCA_POLL_MAX_US);
		}
	}
	return 0;
}

int vhca_engine_start(void)
{
	engine.task = kthread_run(vhca_engine_main, NULL, "vhca");
	return PTR_ERR_OR_ZERO(engine.task);
}

/* The devices are gone by now, and with them all that the engine could do. */
void vhca_engine_stop(void)
{
	kthread_stop(engine.task);
}
