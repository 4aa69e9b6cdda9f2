/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * vhca: a virtual InfiniBand HCA that speaks the user ABI of mlx4.
 *
 * The stock libibverbs and libmlx4 drive it as they would drive a ConnectX:
 * they build descriptors in their own memory and ring doorbells on a page
 * which, here, is ordinary memory.  One kernel thread, the engine, plays the
 * part of the hardware: it watches the doorbell pages, executes send
 * descriptors and copies the data straight into the receiver's memory.
 *
 * Who may touch what
 * ------------------
 *
 *  - Queues in user memory (SQ, RQ, SRQ, CQ) and their indices belong to the
 *    engine thread alone.  Control path calls never write a completion; they
 *    change the state of a QP and kick() the engine, which does the flushing.
 *    The one exception is the move of a QP to RESET, which clears that QP's
 *    indices under its lock.
 *  - qp->lock guards the attributes and the state of a QP.  The engine holds
 *    it around each step of the QP; a control path call holds only one.
 *  - Tables (number -> object) are xarrays.  A lookup takes a reference under
 *    the xarray's own lock; destroying an object erases it from the table
 *    first and then waits for the references to go.
 *  - uctx->lock guards the lists of QPs and CQs made through one context.
 *  - engine.uar_lock guards the list of contexts, fabric.lock the list of
 *    ports by LID, engine.run_lock (spinlock) the engine's run list.
 *  - plug_lock (main.c) guards the list of devices, faults.lock (spinlock) the
 *    rules of fault injection; nothing is taken inside the latter.
 *
 * Order of locks, outermost first:
 *
 *    plug_lock > requester's qp->lock > responder's qp->lock > fabric.lock
 *    engine.uar_lock > uctx->lock > engine.run_lock
 *
 * Only the engine nests two qp->lock, and there is only one engine, so a pair
 * of QPs that talk to each other cannot deadlock.  ib_core's event and
 * completion handlers take spinlocks only, so they may be called under any
 * mutex here.
 *
 * User memory is hostile: it changes while it is read.  Every descriptor is
 * copied once into the engine's own memory and parsed there, every index is
 * read once and masked, every key is looked up, and matched against the
 * protection domain, before a byte moves.
 */
#ifndef VHCA_H
#define VHCA_H

#include <linux/completion.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#define VHCA_MAX_DEVICES	16
#define VHCA_MAX_PORTS		2
#define VHCA_GID_TBL_LEN	1
#define VHCA_PKEY_TBL_LEN	2
#define VHCA_MAX_MSG_SZ		(1U << 30)
#define VHCA_MAX_RD_ATOMIC	16

/*
 * libmlx4 keeps its own tables of QPs and XRC SRQs, indexed by the number
 * modulo qp_tab_size: numbers must be unique in these 16 bits.
 */
#define VHCA_NUM_TAB_SIZE	(1U << 16)
#define VHCA_MIN_QPN		64
/* libmlx4 tells the completions of an XRC target QP by this bit. */
#define VHCA_XRC_TGT_QPN	BIT(23)

#define VHCA_MAX_WR		16384
#define VHCA_MAX_CQE		((1 << 22) - 1)
/* A send descriptor's length is six bits, in units of 16 bytes. */
#define VHCA_MAX_SQ_DESC	(63 * 16)
#define VHCA_MAX_SGE		32
#define VHCA_SQ_STRIDE_MIN	6
#define VHCA_SQ_STRIDE_MAX	10

/* What a table holds: embedded in each numbered object. */
struct vhca_res {
	refcount_t		refs;
	struct completion	idle;
};

/* How many objects of a kind the device has room for. */
struct vhca_quota {
	atomic_t		used;
	u32			max;
};

struct vhca_table {
	struct xarray		xa;
	u32			next;
	struct vhca_quota	quota;
};

/* What may be made to fail or to take long; destruction comes last. */
enum vhca_cmd {
	VHCA_CMD_OPEN_CTX,
	VHCA_CMD_ALLOC_PD,
	VHCA_CMD_ALLOC_XRCD,
	VHCA_CMD_REG_MR,
	VHCA_CMD_CREATE_CQ,
	VHCA_CMD_RESIZE_CQ,
	VHCA_CMD_CREATE_SRQ,
	VHCA_CMD_MODIFY_SRQ,
	VHCA_CMD_QUERY_SRQ,
	VHCA_CMD_CREATE_QP,
	VHCA_CMD_MODIFY_QP,
	VHCA_CMD_QUERY_QP,
	VHCA_CMD_FIRST_DESTROY,
	VHCA_CMD_DEALLOC_PD = VHCA_CMD_FIRST_DESTROY,
	VHCA_CMD_DEALLOC_XRCD,
	VHCA_CMD_DEREG_MR,
	VHCA_CMD_DESTROY_CQ,
	VHCA_CMD_DESTROY_SRQ,
	VHCA_CMD_DESTROY_QP,
	VHCA_CMD_COUNT,
};

#define VHCA_MAX_DELAY_MS	30000

struct vhca_rule {
	u32			countdown;
	u32			error;
	u32			delay_ms;
};

struct vhca_faults {
	spinlock_t		lock;
	/* One for each class of commands, and one for any of them. */
	struct vhca_rule	rule[VHCA_CMD_COUNT + 1];
};

/* Module parameters: what each device has room for. */
struct vhca_limits {
	u32			pd;
	u32			xrcd;
	u32			mr;
	u32			cq;
	u32			srq;
	u32			qp;
};

extern struct vhca_limits vhca_limits;

/* A queue in user memory, pinned and mapped into one kernel address range. */
struct vhca_buf {
	struct ib_umem		*umem;
	void			*map;
	void			*va;
};

/* A page of doorbell records, shared by the objects of one context. */
struct vhca_db_page;

/* A doorbell record: where user space publishes an index. */
struct vhca_db {
	struct vhca_db_page	*page;
	__be32			*rec;
};

struct vhca_dev;

struct vhca_port {
	struct vhca_dev		*dev;
	u32			num;
	u16			lid;
	enum ib_port_state	state;
	struct list_head	fabric_link;
};

struct vhca_dev {
	struct ib_device	ibdev;
	struct vhca_table	cqs;
	struct vhca_table	qps;
	struct vhca_table	srqs;
	struct vhca_table	mrs;
	struct vhca_quota	pds;
	struct vhca_quota	xrcds;
	struct vhca_faults	faults;
	bool			dead;
	unsigned int		index;
	u32			nports;
	struct vhca_port	ports[VHCA_MAX_PORTS];
	struct dentry		*debugfs;
	struct list_head	link;
};

struct vhca_uctx {
	struct ib_ucontext	ibuctx;
	struct page		*uar;
	struct mutex		lock;
	struct list_head	qps;
	struct list_head	cqs;
	struct list_head	db_pages;
	struct list_head	engine_link;
};

struct vhca_pd {
	struct ib_pd		ibpd;
};

struct vhca_xrcd {
	struct ib_xrcd		ibxrcd;
};

struct vhca_mr {
	struct ib_mr		ibmr;
	struct vhca_res		res;
	u32			index;
	int			access;
	struct ib_umem		*umem;
	struct page		**pages;
};

struct vhca_cq {
	struct ib_cq		ibcq;
	struct vhca_res		res;
	u32			cqn;
	struct vhca_uctx	*uctx;
	struct list_head	uctx_link;
	struct vhca_buf		buf;
	struct vhca_db		db;
	u32			entries;
	u32			prod;
	/* Producer index after the last solicited entry. */
	u32			prod_solicited;
	/* Sequence number of the arm request that was last served. */
	u8			fired_sn;
	bool			overrun;
};

struct vhca_srq {
	struct ib_srq		ibsrq;
	struct vhca_res		res;
	u32			srqn;
	struct vhca_uctx	*uctx;
	struct vhca_buf		buf;
	struct vhca_db		db;
	u32			wqe_cnt;
	u32			wqe_shift;
	u32			max_gs;
	u32			head;
	u16			consumed;
	u32			limit;
};

struct vhca_wq {
	void			*base;
	u32			wqe_cnt;
	u32			wqe_shift;
	u32			max_gs;
	u32			head;
};

struct vhca_qp {
	struct ib_qp		ibqp;
	struct vhca_res		res;
	u32			qpn;
	struct vhca_dev		*dev;
	/* Own copies: ib_core fills some of its fields only after create_qp. */
	enum ib_qp_type		type;
	struct vhca_cq		*send_cq;
	struct vhca_cq		*recv_cq;
	struct vhca_srq		*srq;
	struct ib_xrcd		*xrcd;
	struct ib_pd		*pd;

	/* NULL for an XRC target QP, which outlives the context it came from. */
	struct vhca_uctx	*uctx;
	struct list_head	uctx_link;
	struct vhca_buf		buf;
	struct vhca_db		db;
	struct vhca_wq		sq;
	struct vhca_wq		rq;
	enum ib_sig_type	sig_type;
	/* User space sets the owner bits up when it moves RESET to INIT. */
	bool			sq_live;

	struct mutex		lock;
	struct ib_qp_attr	attr;
	u32			sq_psn;
	u32			rq_psn;
	/* Retry state of the request at the head of the send queue. */
	u8			retries;
	u8			rnr_retries;
	ktime_t			retry_at;

	/* engine.run_lock */
	struct list_head	run_link;
	bool			dying;
};

/* One contiguous piece of a message: in a memory region or in the engine. */
struct vhca_seg {
	struct vhca_mr		*mr;
	void			*data;
	u64			addr;
	u32			len;
};

#define VHCA_MAX_SEGS	64

struct vhca_sgl {
	struct vhca_seg		seg[VHCA_MAX_SEGS];
	u32			n;
	u64			len;
};

/* A send descriptor, taken apart. */
struct vhca_req {
	u8			opcode;
	bool			signaled;
	bool			solicited;
	__be32			imm;
	u32			srqn;
	u64			raddr;
	u32			rkey;
	u64			swap_add;
	u64			compare;
	u32			npackets;
	/* Gathered for send and write, scattered for read and atomics. */
	struct vhca_sgl		local;
};

/* How one attempt to deliver a request ended. */
enum vhca_verdict {
	VHCA_ACK,	/* done */
	VHCA_LOST,	/* nobody answered: the transport timer decides */
	VHCA_RNR,	/* no receive posted: the RNR timer decides */
	VHCA_NAK,	/* fatal for the requester, with a syndrome */
};

struct vhca_answer {
	enum vhca_verdict	verdict;
	u8			syndrome;
	u8			rnr_timer;
};

/* What is left to do for a QP after a step. */
enum vhca_step {
	VHCA_IDLE,	/* nothing until the next doorbell */
	VHCA_WAIT,	/* look again soon: a timer runs, or it is in error */
	VHCA_BUSY,	/* progress was made and there may be more */
};

#define VHCA_TO(name)							\
static inline struct vhca_##name *to_v##name(struct ib_##name *ib)	\
{									\
	return container_of(ib, struct vhca_##name, ib##name);		\
}
VHCA_TO(pd)
VHCA_TO(mr)
VHCA_TO(cq)
VHCA_TO(srq)
VHCA_TO(qp)

static inline struct vhca_dev *to_vdev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct vhca_dev, ibdev);
}

static inline struct vhca_uctx *to_vuctx(struct ib_ucontext *ibuctx)
{
	return container_of(ibuctx, struct vhca_uctx, ibuctx);
}

/* device.c */
extern const struct ib_device_ops vhca_device_ops;
void vhca_fabric_add(struct vhca_dev *dev);
void vhca_fabric_del(struct vhca_dev *dev);
u16 vhca_pkey(u16 index);
struct vhca_qp *vhca_fabric_get_qp(u16 slid, u16 dlid, u32 qpn);
void vhca_set_port_state(struct vhca_port *port, enum ib_port_state state);

/* fault.c */
void vhca_faults_init(struct vhca_dev *dev);
int vhca_fault_fail(struct vhca_dev *dev, const char *name, u32 nth, u32 error);
int vhca_fault_delay(struct vhca_dev *dev, const char *name, u32 ms);
int vhca_cmd(struct ib_device *ibdev, enum vhca_cmd cmd);
void vhca_device_die(struct vhca_dev *dev);

/* main.c */
int vhca_plug(unsigned int index);
int vhca_unplug(unsigned int index);

/* debugfs.c */
void vhca_debugfs_init(void);
void vhca_debugfs_exit(void);
void vhca_debugfs_start(void);
void vhca_debugfs_stop(void);
void vhca_debugfs_add(struct vhca_dev *dev);
void vhca_debugfs_del(struct vhca_dev *dev);

/* table.c */
int vhca_quota_charge(struct vhca_quota *quota);
void vhca_quota_refund(struct vhca_quota *quota);
void vhca_table_init(struct vhca_table *table, u32 max);
int vhca_table_reserve(struct vhca_table *table, u32 min, u32 max, u32 *number);
void vhca_table_publish(struct vhca_table *table, u32 number,
			struct vhca_res *res);
void vhca_table_release(struct vhca_table *table, u32 number);
void vhca_table_remove(struct vhca_table *table, u32 number,
		       struct vhca_res *res);
struct vhca_res *vhca_table_get(struct vhca_table *table, u32 number);
void vhca_res_get(struct vhca_res *res);
void vhca_res_put(struct vhca_res *res);

/* context.c */
extern const struct ib_device_ops vhca_context_ops;
int vhca_db_map(struct vhca_uctx *uctx, u64 addr, u32 size, struct vhca_db *db);
void vhca_db_unmap(struct vhca_uctx *uctx, struct vhca_db *db);

/* umem.c */
int vhca_buf_map(struct ib_device *ibdev, u64 addr, size_t len,
		 struct vhca_buf *buf);
void vhca_buf_unmap(struct vhca_buf *buf);
struct page **vhca_umem_pages(struct ib_umem *umem, size_t *npages);

/* mr.c */
extern const struct ib_device_ops vhca_mr_ops;
struct vhca_mr *vhca_mr_get(struct ib_pd *pd, u32 key, u64 addr, u32 len,
			    int access);
void *vhca_mr_chunk(struct vhca_mr *mr, u64 addr, u32 *len);

/* domain.c */
extern const struct ib_device_ops vhca_domain_ops;

/* cq.c */
struct mlx4_cqe;
extern const struct ib_device_ops vhca_cq_ops;
void vhca_cqe_set_error(struct mlx4_cqe *cqe, u8 syndrome);
void vhca_cq_push(struct vhca_cq *cq, const struct mlx4_cqe *cqe,
		  bool solicited);
void vhca_cq_serve_arm(struct vhca_cq *cq);

/* srq.c */
extern const struct ib_device_ops vhca_srq_ops;
struct vhca_srq *vhca_srq_get(struct vhca_dev *dev, u32 srqn);
bool vhca_srq_pop(struct vhca_srq *srq, void *wqe, u16 *index);

/* qp.c */
extern const struct ib_device_ops vhca_qp_ops;
struct vhca_qp *vhca_qp_get(struct vhca_dev *dev, u32 qpn);

/* qp_state.c */
int vhca_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata);
int vhca_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init);
void vhca_qp_set_error(struct vhca_qp *qp);
void vhca_qp_event(struct vhca_qp *qp, enum ib_event_type event);

/* engine.c */
int vhca_engine_start(void);
void vhca_engine_stop(void);
void vhca_engine_add_uctx(struct vhca_uctx *uctx);
void vhca_engine_del_uctx(struct vhca_uctx *uctx);
void vhca_engine_kick(struct vhca_qp *qp);
void vhca_engine_forget(struct vhca_qp *qp);

/* requester.c */
enum vhca_step vhca_requester_step(struct vhca_qp *qp);

/* responder.c */
void vhca_respond(struct vhca_qp *requester, struct vhca_req *req,
		  struct vhca_answer *answer);
void vhca_flush_recv(struct vhca_qp *qp);

/* sgl.c */
void vhca_sgl_init(struct vhca_sgl *sgl);
bool vhca_sgl_add(struct vhca_sgl *sgl, struct ib_pd *pd, u32 key, u64 addr,
		  u32 len, int access);
bool vhca_sgl_add_inline(struct vhca_sgl *sgl, void *data, u32 len);
void vhca_sgl_put(struct vhca_sgl *sgl);
void vhca_sgl_copy(struct vhca_sgl *dst, struct vhca_sgl *src, u64 len);

#endif
