# Receipts and judgements as targets, for the Makefile of any project. See docs/make.md.
#
#     DIR/receipt.json     DIR/packet.json dispatched, once
#     DIR/judgement.json   the receipt reviewed, then checked
#     receipts             every packet below WAYBILL_RUNS dispatched; fails when one is not ok
#     judgements           every receipt of these judged; fails when one does not pass
#
# What the including Makefile has set stays as it is: its default goal, its shell, its recipe
# prefix, its .DELETE_ON_ERROR and .SECONDARY. So every recipe here is one line behind a
# semicolon, and has its own shell.

WAYBILL_RUNS ?= .codex/runs
WAYBILL_DISPATCH ?= dispatch
WAYBILL_DISPATCH_FLAGS ?=
WAYBILL_REVIEW ?= review
WAYBILL_REVIEW_FLAGS ?=
WAYBILL_CHECK ?= receipt-check
WAYBILL_CHECK_FLAGS ?=

waybill-goal := $(.DEFAULT_GOAL)

# Private, or the recipes of whatever these targets need would run in this shell too.
%/receipt.json: private SHELL := bash
%/receipt.json: private .SHELLFLAGS := -euo pipefail -c
%/judgement.json: private SHELL := bash
%/judgement.json: private .SHELLFLAGS := -euo pipefail -c
receipts judgements: private SHELL := bash
receipts judgements: private .SHELLFLAGS := -euo pipefail -c

# For the two that count: one run that fails must not keep the others from being run and
# counted, so what they need never fails. Inherited by it, hence not private.
waybill-counted :=
receipts judgements: waybill-counted := yes

# Evidence: kept when a recipe fails, under .DELETE_ON_ERROR too, and when it is intermediate.
# A packet is protected only where the rule that makes it has one of these patterns.
.PRECIOUS: %/packet.json $(addsuffix /%/packet.json,$(WAYBILL_RUNS))
.PRECIOUS: %/receipt.json %/judgement.json

.PHONY: receipts judgements waybill-always

# Text as one word of a shell.
waybill-word = '$(subst ','\'',$1)'

# How a recipe ends after a fault, by the shell's $status.
waybill-fail = exit $(if $(waybill-counted),0,"$$status")

# The shell function `run`: a command and its $status. In the background, since a shell
# hears of a TERM only then while it waits: it passes that on, and waits for the end.
define waybill-run
child=; told=; trap 'told=yes; kill -TERM "$$child" 2>/dev/null || :' TERM; trap : INT; \
run() { \
    "$$@" </dev/null >/dev/null & child=$$!; \
    if [[ $$told ]]; then kill -TERM "$$child" 2>/dev/null || :; fi; \
    while status=0; wait "$$child" || status=$$?; kill -0 "$$child" 2>/dev/null; do :; done; \
}
endef

# The times of packet and receipt decide nothing: a packet may be written anew as it was, and
# a receipt is written anew by a review. `status` says whether dispatch must be asked: it is
# newer than the packet and holds an answer, 0 or 1, when all is done. A fault is asked about
# again; dispatch runs no packet twice, and gives the old receipt and its status instead.
define waybill-dispatch
@$(waybill-run); \
packet=$(call waybill-word,$<); receipt=$(call waybill-word,$@); kept=$${receipt%/*}/status; \
if [[ -e $$receipt && -e $$kept && ! $$packet -nt $$kept ]]; then \
    case $$(<"$$kept") in 0|1) exit 0;; esac; \
fi; \
run $(WAYBILL_DISPATCH) $(WAYBILL_DISPATCH_FLAGS) -- "$$packet"; \
printf '%s\n' "$$status" >"$$kept"; \
case $$status in 0|1) ;; *) $(waybill-fail);; esac; \
if [[ ! -e $$receipt ]]; then \
    echo "waybill: $$packet: status $$status, and no receipt beside it:" \
        "does its output.receipt_path name $$receipt?" >&2; \
    status=70; $(waybill-fail); \
fi
endef

# A judgement of an earlier receipt says nothing about this one. The new one is written last,
# for the review has written the receipt, and at once: what is half written, or has a name
# that git is not told to ignore, could get into the tree of a run beside this one.
define waybill-judge
@$(waybill-run); receipt=$(call waybill-word,$<); judgement=$(call waybill-word,$@); \
rm -f -- "$$judgement"; \
status=66; [[ -e $$receipt ]] || $(waybill-fail); \
run $(WAYBILL_REVIEW) $(WAYBILL_REVIEW_FLAGS) -- "$$receipt"; \
case $$status in 0|1) ;; *) $(waybill-fail);; esac; \
status=0; \
text=$$($(WAYBILL_CHECK) $(WAYBILL_CHECK_FLAGS) -- "$$receipt" </dev/null) || status=$$?; \
case $$status in 0|1) ;; *) $(waybill-fail);; esac; \
if [[ ! $$text ]]; then \
    echo "waybill: $$receipt: status $$status, and no judgement" >&2; \
    status=70; $(waybill-fail); \
fi; \
printf '%s\n' "$$text" >"$$judgement" || { status=73; rm -f -- "$$judgement"; $(waybill-fail); }
endef

# The folders to count, as shell words: by a pattern those below WAYBILL_RUNS, of which there
# may be more than a command line holds, and by name what the including Makefile added to the
# target, which is what needs more than the $1 of ours.
waybill-folders = $(foreach runs,$(WAYBILL_RUNS),$(call waybill-word,$(runs))/*/packet.json) \
    $(foreach file,$(filter-out $1,$^),$(call waybill-word,$(file)))

# The shell function `count`: for each folder of a receipt it calls `judge`, which sets `why`
# when something is wrong, and it fails when something was.
define waybill-count
shopt -s nullglob; declare -A seen=(); text=; bad=0; \
count() { \
    for file in "$$@"; do \
        run=$${file%/*}; [[ $${seen[$$run]-} ]] && continue; seen[$$run]=yes; \
        why=; judge; [[ ! $$why ]] && continue; \
        bad=$$((bad + 1)); echo "$@: $$run: $$why" >&2; \
    done; \
    echo "$@: $$(($${#seen[@]} - bad)) of $${#seen[@]} $$good"; \
    ((bad == 0)); \
}
endef

# The status is that of dispatch; a later step can only have found more, and then the receipt
# says so.
define waybill-receipts
@$(waybill-count); good=ok; \
reason='"failure_reason": *"(([^"\]|[\].)+)"'; \
judge() { \
    status=none; [[ ! -e $$run/status ]] || status=$$(<"$$run/status"); \
    if [[ ! -e $$run/receipt.json ]]; then why="no receipt, status $$status"; return; fi; \
    text=$$(<"$$run/receipt.json"); \
    if [[ $$text =~ $$reason ]]; then why=$${BASH_REMATCH[1]}; fi; \
    if [[ $$status != 0 ]]; then why="status $$status$${why:+, $$why}"; fi; \
}; \
count $(call waybill-folders,$(waybill-all-receipts))
endef

define waybill-judgements
@$(waybill-count); good=passed; \
judge() { \
    if [[ ! -e $$run/judgement.json || $$run/receipt.json -nt $$run/judgement.json ]]; then \
        why="not judged"; return; \
    fi; \
    text=$$(<"$$run/judgement.json"); \
    [[ $$text =~ \"pass\":\ *true ]] || why="held, see $$run/judgement.json"; \
}; \
count $(call waybill-folders,$(waybill-all-judgements))
endef

waybill-all-packets := $(foreach runs,$(WAYBILL_RUNS),$(wildcard $(runs)/*/packet.json))
waybill-all-receipts := $(waybill-all-packets:%/packet.json=%/receipt.json)
waybill-all-judgements := $(waybill-all-packets:%/packet.json=%/judgement.json)

%/receipt.json: %/packet.json waybill-always ; $(waybill-dispatch)
%/judgement.json: %/receipt.json ; $(waybill-judge)
receipts: $(waybill-all-receipts) ; $(waybill-receipts)
judgements: $(waybill-all-judgements) ; $(waybill-judgements)

.DEFAULT_GOAL := $(waybill-goal)
